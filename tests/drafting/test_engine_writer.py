"""Data through a real llama.cpp: what it writes is what it says when it is asked directly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.app.server import Launch
from outrider.drafting import dataset, making
from outrider.drafting.chat_format import ChatFormat
from outrider.drafting.engine_writer import EngineWriter
from outrider.drafting.prompts import conversation
from outrider.drafting.slots import Given, Sampler, Script, Text, Written
from outrider.engines.llamacpp import LlamaCpp
from outrider.engines.probes import EngineAddress
from outrider.errors import Unavailable
from outrider.models.weights import Weights
from tests.e2e.outrider_process import free_port
from tests.engines.conftest import await_ready, ignore
from tests.engines.drafting_parts import target
from tests.models.real import smollm

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
ASKED = ("Say hello.", "What is the capital of France? Answer with its name.", "Count from one to fifty, in words.")
LIMIT = 24


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineAddress]:
    """A real llama.cpp with the real model, which wants a key."""
    scratch = tmp_path_factory.mktemp("engine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTRIDER_CACHE", str(scratch / "cache"))
        server = LlamaCpp(Weights(f"path:{smollm()}"), slots=2, context=512)
        server.prepare(ignore)
    launch = Launch("hello", "127.0.0.1", free_port(), "or-test-key", scratch / "engine.log", scratch)
    server.start(launch)
    try:
        await_ready(server)
        yield EngineAddress(f"http://{launch.host}:{launch.port}", launch.key)
    finally:
        server.stop(5.0)


@pytest.fixture(scope="module")
def form() -> ChatFormat:
    """The real model's chat format."""
    return ChatFormat(target().tokenizer)


def writer(
    engine: EngineAddress, form: ChatFormat, key: str | None = "or-test-key", concurrency: int = 2
) -> EngineWriter:
    return EngineWriter(engine.url, "hello", form, key=key, concurrency=concurrency)


def asked(form: ChatFormat, question: str) -> list[int]:
    return [*form.opening(), *form.encode(question), form.user_stop, *form.bridge]


def test_answers_are_those_that_the_engine_gives_when_asked_directly(engine: EngineAddress, form: ChatFormat) -> None:
    scripts = [conversation(form, text, [text], Sampler(), LIMIT, system=None, note={}) for text in ASKED]
    heard: list[int] = []
    # One at a time: two in one pass are rounded otherwise.
    one = writer(engine, form, concurrency=1)
    found = {text.script.id: text for text in one.write(iter(scripts), heard.append)}
    assert set(found) == set(ASKED)
    assert sorted(heard) == sorted(len(text.tokens) for text in found.values())
    for question in ASKED:
        prompt = asked(form, question)
        body = {"prompt": prompt, "n_predict": LIMIT, "temperature": 0, "return_tokens": True}
        said = engine.json("/completion", body, timeout=120)
        ((start, end, _, ended),) = found[question].spans
        assert found[question].tokens[:start] == prompt
        written = found[question].tokens[start:end]
        assert end == len(found[question].tokens)
        # The end of turn belongs to the answer, whether the engine lists it or not.
        words = written[:-1] if ended else written
        assert words == [token for token in said["tokens"] if token not in form.stops]
        assert ended == (said["stop_type"] == "eos") == (written[-1] in form.stops)
        assert form.decode(words) == said["content"]
    assert not found[ASKED[2]].spans[0][3], "fifty numbers need more tokens than there are"
    assert any(text.spans[0][3] for text in found.values())


def test_a_conversation_goes_on_after_the_end_of_a_turn(engine: EngineAddress, form: ChatFormat) -> None:
    turns = [ASKED[1], "And of Italy? Answer with its name."]
    script = conversation(form, "c", turns, Sampler(), 64, system=None, note={})
    (text,) = writer(engine, form).write(iter([script]))
    (_, end, _, ended), (start, _, _, _) = text.spans
    assert ended and text.tokens[end - 1] == form.user_stop
    between = [*form.again, *form.encode(turns[1]), form.user_stop, *form.bridge]
    assert text.tokens[end:start] == between


def test_a_users_turn_that_is_cut_short_is_dropped(engine: EngineAddress, form: ChatFormat) -> None:
    opening = Given((*form.opening(), *form.encode("Write a long story about")))
    users = Script("cut", (opening, Written(Sampler(), 4, answer=False), Written(Sampler(), 4)))
    answers = Script("kept", (opening, Written(Sampler(), 4)))
    found = list(writer(engine, form).write(iter([users, answers])))
    assert [text.script.id for text in found] == ["kept"]
    assert len(found[0].tokens) == len(opening.tokens) + 4


def test_draws_follow_the_seed(engine: EngineAddress, form: ChatFormat) -> None:
    script = conversation(form, "c", ["Tell me a story."], Sampler(temperature=1.0), LIMIT, system=None, note={})

    def drawn(seed: int) -> list[int]:
        one = EngineWriter(engine.url, "hello", form, key="or-test-key", concurrency=1, seed=seed)
        found: list[Text] = list(one.write(iter([script])))
        return found[0].tokens

    # The first pass reads the prompt, the others find it in the cache: only among these are numbers the same.
    drawn(1)
    first = drawn(1)
    assert drawn(1) == first
    assert drawn(2) != first


def test_data_is_made_of_a_prompt_file(engine: EngineAddress, form: ChatFormat, tmp_path: Path) -> None:
    lines = [json.dumps({"messages": [{"role": "user", "content": text}]}) for text in ASKED]
    (tmp_path / "prompts.jsonl").write_text("\n".join(lines))
    settings = making.DataSettings(chats=0, prompts=(tmp_path / "prompts.jsonl",), limit=LIMIT)
    manifest = making.make(tmp_path / "data", writer(engine, form), form, settings, about={"target": {"digest": "d"}})
    rows = dataset.read(tmp_path / "data").rows
    assert manifest["rows"] == {"train/chat": len(rows)} and len(rows) == 3
    assert all(1 < row.supervised <= LIMIT + 1 for row in rows)


@pytest.mark.parametrize("key", [None, "or-wrong"])
def test_an_engine_that_refuses_is_an_error_of_one_line(
    engine: EngineAddress, form: ChatFormat, key: str | None
) -> None:
    script = conversation(form, "c", ["Hello"], Sampler(), 4, system=None, note={})
    with pytest.raises(Unavailable, match="The engine gave no completion: Client error '401 Unauthorized'") as refused:
        list(writer(engine, form, key).write(iter([script])))
    assert "\n" not in str(refused.value)


def test_an_engine_that_is_gone_is_an_error_of_one_line(form: ChatFormat) -> None:
    script = conversation(form, "c", ["Hello"], Sampler(), 4, system=None, note={})
    gone = EngineWriter(f"http://127.0.0.1:{free_port()}", "hello", form)
    with pytest.raises(Unavailable, match="Connection refused") as refused:
        list(gone.write(iter([script])))
    assert "\n" not in str(refused.value)
