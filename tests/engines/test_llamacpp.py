from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest

from outrider.app.server import Launch, Progress
from outrider.engines import normalise
from outrider.engines.base import Engine
from outrider.engines.llamacpp import LlamaCpp
from outrider.engines.probes import EngineAddress, embedding, structured_value
from outrider.engines.speculation import Speculation
from outrider.errors import EngineMissing, InvalidInput, PortTaken, ReplicaFailed
from outrider.models.weights import Weights
from tests.e2e.outrider_process import until
from tests.engines.conftest import await_ready, ignore

Running = tuple[LlamaCpp, Launch]
Starter = Callable[..., LlamaCpp]
NOWHERE = Weights("path:/nowhere/model.gguf")
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}, "sure": {"type": "boolean"}},
    "required": ["city", "sure"],
    "additionalProperties": False,
}


class NoEngine:
    """An environment whose Python has no engine."""

    def __init__(self, interpreter: Path) -> None:
        self.interpreter = interpreter
        self.env = {"PYTHONPATH": ""}
        self.prepared = False

    def prepare(self, report: Callable[[Progress], None]) -> None:
        self.prepared = True


def address(launch: Launch, key: str | None = None) -> EngineAddress:
    return EngineAddress(f"http://{launch.host}:{launch.port}", launch.key if key is None else key)


def client(launch: Launch) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://{launch.host}:{launch.port}/v1", api_key=launch.key, max_retries=0)


@pytest.mark.e2e
def test_lists_the_model_under_the_name_of_the_endpoint(running: Running) -> None:
    engine, launch = running
    listed = address(launch).json("/v1/models", timeout=5)["data"]
    assert [entry["id"] for entry in listed] == ["hello"]
    assert listed[0]["meta"]["n_ctx_train"] == 8192
    assert engine.poll() is None
    assert isinstance(engine, Engine)


@pytest.mark.e2e
def test_the_context_is_for_each_request(running: Running) -> None:
    _, launch = running
    slots = json.loads(address(launch).text("/slots", timeout=5))
    assert [slot["n_ctx"] for slot in slots] == [1024, 1024]


@pytest.mark.e2e
def test_streams_a_chat_with_usage(running: Running) -> None:
    _, launch = running
    with client(launch) as api:
        chunks = list(
            api.chat.completions.create(
                model="hello",
                messages=[{"role": "user", "content": "Count to five."}],
                max_tokens=12,
                temperature=0,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    usage = chunks[-1].usage
    assert text
    assert usage is not None
    assert 1 <= usage.completion_tokens <= 12
    assert usage.prompt_tokens > 10
    assert {chunk.model for chunk in chunks} == {"hello"}


@pytest.mark.e2e
def test_follows_a_json_schema(running: Running) -> None:
    _, launch = running
    body = {
        "model": "hello",
        "messages": [{"role": "user", "content": "Which city is the capital of France?"}],
        "max_tokens": 128,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}},
    }
    value = structured_value(address(launch).json("/v1/chat/completions", body, timeout=60), SCHEMA)
    assert value["city"] in ("Paris", "Rome")


@pytest.mark.e2e
def test_embeds_an_input_longer_than_512_tokens_while_chat_works(running: Running) -> None:
    _, launch = running
    one, other = (
        embedding(address(launch).json("/v1/embeddings", {"model": "hello", "input": text}, timeout=60))
        for text in ("a short text", "many words " * 300)
    )
    assert len(one) == len(other) == 576
    assert sum(value * value for value in one) == pytest.approx(1.0, abs=1e-3)
    assert one != other


@pytest.mark.e2e
def test_the_metrics_page_counts_tokens_and_drafts(running: Running) -> None:
    engine, launch = running
    assert engine.metrics_url == f"http://127.0.0.1:{launch.port}/metrics"
    before = normalise.llamacpp(address(launch).text("/metrics", timeout=5))
    body = {
        "model": "hello",
        "messages": [{"role": "user", "content": "Repeat: " + "one two three four five six seven. " * 12}],
        "max_tokens": 48,
        "temperature": 0,
    }
    usage = address(launch).json("/v1/chat/completions", body, timeout=60)["usage"]
    after = normalise.llamacpp(address(launch).text("/metrics", timeout=5))
    assert (after.generated_tokens or 0) - (before.generated_tokens or 0) == usage["completion_tokens"]
    assert after.running == after.waiting == 0
    assert after.drafts is not None
    assert after.accepted_tokens is not None
    assert sum(after.accepted_by_position) == after.accepted_tokens


@pytest.mark.e2e
def test_the_metrics_page_moves_amid_a_stream(running: Running) -> None:
    _, launch = running
    with client(launch) as api:
        stream = api.completions.create(model="hello", prompt="One, two,", max_tokens=64, temperature=0, stream=True)
        events = iter(stream)
        next(events)
        early = normalise.llamacpp(address(launch).text("/metrics", timeout=5))
        for _ in range(16):
            next(events)
        late = normalise.llamacpp(address(launch).text("/metrics", timeout=5))
        stream.close()
    until(lambda: normalise.llamacpp(address(launch).text("/metrics", timeout=5)).running == 0)
    assert early.work is not None and late.work is not None and late.work > early.work


@pytest.mark.e2e
def test_the_first_user_finds_the_shared_prefix_in_a_slot(starter: Starter, launch: Launch) -> None:
    prefix = "You count words with great care and answer in as few of them as you can. " * 8
    engine = starter(shared_prefix=prefix)
    await_ready(engine)
    engine.warm_up(ignore)
    before = normalise.llamacpp(address(launch).text("/metrics", timeout=5))
    messages = [{"role": "system", "content": prefix}, {"role": "user", "content": "How many words has this?"}]
    body = {"model": "hello", "messages": messages, "max_tokens": 2, "ignore_eos": True}
    usage = address(launch).json("/v1/chat/completions", body, timeout=60)["usage"]
    after = normalise.llamacpp(address(launch).text("/metrics", timeout=5))
    hit = (after.cached_tokens or 0) - (before.cached_tokens or 0)
    assert hit >= 100, "the warm-up left the shared prefix in the slot"
    assert (after.prompt_tokens or 0) - (before.prompt_tokens or 0) == usage["prompt_tokens"] - hit


@pytest.mark.e2e
@pytest.mark.parametrize("key", ["wrong", ""])
def test_a_wrong_key_is_refused(running: Running, key: str) -> None:
    _, launch = running
    with pytest.raises(ReplicaFailed) as caught:
        address(launch, key).json("/v1/chat/completions", {"messages": []}, timeout=5)
    assert caught.value.details["status"] == 401


@pytest.mark.e2e
def test_the_key_is_in_a_private_file_and_on_no_command_line(running: Running) -> None:
    engine, launch = running
    assert engine.pid is not None
    child = psutil.Process(engine.pid)
    assert launch.key not in " ".join(child.cmdline())
    assert launch.key not in " ".join(child.environ().values())
    assert (launch.scratch / "llamacpp.json").stat().st_mode & 0o777 == 0o600
    assert launch.key not in launch.log.read_text()


@pytest.mark.e2e
def test_secrets_do_not_reach_the_engine(starter: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("OUTRIDER_TEST_SEEN", "yes")
    engine = starter()
    await_ready(engine)
    assert engine.pid is not None
    seen = psutil.Process(engine.pid).environ()
    assert "HF_TOKEN" not in seen
    assert seen["OUTRIDER_TEST_SEEN"] == "yes"


@pytest.mark.e2e
def test_sigterm_ends_an_idle_engine_at_once(starter: Starter, launch: Launch) -> None:
    engine = starter()
    await_ready(engine)
    until(lambda: "listening on" in launch.log.read_text())  # from then on it may have something to finish
    began = time.monotonic()
    engine.stop(30.0)
    assert engine.poll() == 0
    assert time.monotonic() - began < 10.0
    engine.stop(30.0)
    assert engine.poll() == 0


@pytest.mark.e2e
def test_sigterm_while_the_model_loads(starter: Starter) -> None:
    engine = starter()
    engine.stop(30.0)
    assert engine.poll() in (0, -signal.SIGTERM)


@pytest.mark.e2e
def test_a_stream_in_flight_is_finished_before_the_engine_ends(starter: Starter, launch: Launch) -> None:
    engine = starter()
    await_ready(engine)
    begun, answer = threading.Event(), []

    def stream() -> None:
        with client(launch) as api:
            for chunk in api.chat.completions.create(
                model="hello",
                messages=[{"role": "user", "content": "Write a long story."}],
                max_tokens=60,
                stream=True,
                extra_body={"ignore_eos": True},
            ):
                begun.set()
                answer.append(chunk.choices[0].finish_reason)

    reader = threading.Thread(target=stream)
    reader.start()
    assert begun.wait(60)
    engine.stop(60.0)
    reader.join(10)
    assert answer[-1] == "length"
    assert engine.poll() == 0


@pytest.mark.e2e
def test_a_stream_that_outlasts_the_grace_is_cut(starter: Starter, launch: Launch) -> None:
    engine = starter(extra={"ctx_shift": True})
    await_ready(engine)
    with client(launch) as api:
        chunks = api.chat.completions.create(
            model="hello",
            messages=[{"role": "user", "content": "Write a long story."}],
            stream=True,
            max_tokens=100_000,
            extra_body={"ignore_eos": True},
        )
        next(iter(chunks))
        engine.stop(0.2)
        assert engine.poll() == -signal.SIGKILL
        chunks.close()


@pytest.mark.e2e
def test_the_engine_dies_with_a_parent_that_is_killed(weights: Weights, launch: Launch, tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import json, sys, threading\n"
        "from pathlib import Path\n"
        "from outrider.app.server import Launch\n"
        "from outrider.engines.llamacpp import LlamaCpp\n"
        "from outrider.models.weights import Weights\n"
        f"engine = LlamaCpp(Weights({weights.sources[0]!r}), slots=1, context=256)\n"
        "engine.prepare(lambda _: None)\n"
        f"engine.start(Launch('hello', '127.0.0.1', {launch.port}, 'k', Path({str(launch.log)!r}),"
        f" Path({str(launch.scratch)!r})))\n"
        "pause = threading.Event()\n"
        "while not engine.probe():\n    pause.wait(0.05)\n"
        "print(engine.pid, flush=True)\n"
        "threading.Event().wait()\n"
    )
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        try:
            assert select.select([child], [], [], 10)[0], "the engine outlived its parent"
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(child, signal.SIGKILL)
            os.close(child)


@pytest.mark.e2e
def test_a_taken_port_is_said_so(weights: Weights, launch: Launch) -> None:
    with socket.create_server((launch.host, launch.port)):
        engine = LlamaCpp(weights, slots=1, context=256)
        engine.prepare(ignore)
        engine.start(launch)
        with pytest.raises(PortTaken, match=str(launch.port)):
            await_ready(engine)
        engine.stop(1.0)


@pytest.mark.e2e
def test_a_file_that_is_no_model_ends_with_the_engines_own_words(launch: Launch, tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + bytes(100))
    engine = LlamaCpp(Weights(f"path:{bad}"))
    engine.prepare(ignore)
    engine.start(launch)
    with pytest.raises(ReplicaFailed, match="exit code 3") as caught:
        await_ready(engine)
    assert any("bad.gguf" in line for line in caught.value.details["log"])
    engine.stop(1.0)


def test_an_environment_without_the_engine_is_refused_before_weights_are_fetched(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    environment = NoEngine(bare / "bin/python")
    engine = LlamaCpp(NOWHERE, environment)
    with pytest.raises(EngineMissing, match="No module named 'xllamacpp'") as caught:
        engine.prepare(ignore)
    assert environment.prepared
    assert caught.value.remedy is not None
    assert "pip install 'outrider[cpu]'" in caught.value.remedy
    assert engine.version() is None


def test_a_missing_interpreter_is_an_engine_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(EngineMissing, match="no Python at"):
        LlamaCpp(NOWHERE, NoEngine(tmp_path / "python")).prepare(ignore)


def test_the_version_is_that_of_the_package() -> None:
    assert (LlamaCpp(NOWHERE).version() or "").startswith("2026.")


def test_before_the_start_it_neither_answers_nor_ends() -> None:
    engine = LlamaCpp(NOWHERE)
    assert not engine.probe()
    assert engine.poll() is None
    assert engine.metrics_url is None
    assert engine.pid is None
    engine.warm_up(ignore)
    engine.stop(1.0)


def test_describes_its_flags_as_json() -> None:
    engine = LlamaCpp(weights=NOWHERE, slots=3, extra={"cache_type_k": "q8_0"})
    described = json.loads(json.dumps(engine.describe()))
    assert described["name"] == "llamacpp"
    assert described["flags"]["slots"] == 3
    assert described["flags"]["threads"] == 1
    assert described["flags"]["cache_type_k"] == "q8_0"


def test_parameters(launch: Launch) -> None:
    params = LlamaCpp(NOWHERE, slots=3, context=1000).parameters(launch)
    assert params["n_ctx"] == 3000
    assert params["kv_unified"] is False
    assert params["model_alias"] == ["hello"]
    assert params["cpuparams.n_threads"] == 1
    assert params["n_ubatch"] == 512
    assert "embedding" not in params
    own = LlamaCpp(NOWHERE, slots=3).parameters(replace(launch, name="other"))
    assert (own["n_ctx"], own["kv_unified"]) == (0, True)
    embed = LlamaCpp(NOWHERE, context=1000, embeddings=True, extra={"n_gpu_layers": 0}).parameters(launch)
    assert embed["n_ubatch"] == 1000
    assert embed["pooling_type"]["members"] == ["LLAMA_POOLING_TYPE_MEAN"]
    assert embed["n_gpu_layers"] == 0


def test_speculation_sets_llamacpps_own_parameters(tmp_path: Path) -> None:
    launch = Launch("name", "127.0.0.1", 1, "key", tmp_path / "log", tmp_path)
    drafting = LlamaCpp(NOWHERE, speculation=Speculation("ngram", tokens=6))
    found = drafting.parameters(launch)
    assert found["speculative.types"]["members"] == ["COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE"]
    assert (found["speculative.ngram_simple.size_m"], found["speculative.ngram_simple.size_n"]) == (6, 4)
    assert drafting.describe()["flags"]["speculation"] == Speculation("ngram", tokens=6).describe()
    plain = LlamaCpp(NOWHERE)
    assert not [name for name in plain.parameters(launch) if name.startswith("speculative")]
    assert "speculation" not in plain.describe()["flags"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"threads": 0}, "threads"),
        ({"slots": True}, "slots"),
        ({"context": 2.5}, "context"),
        ({"prompt_cache_mib": -1}, "prompt_cache_mib"),
        ({"flash_attention": "yes"}, "flash_attention"),
        ({"extra": {"n_gpu_layer": 1}}, "'n_gpu_layers'"),
        ({"extra": {"port": 1}}, "port"),
        ({"extra": {"n_gpu_layers": "many"}}, "a whole number"),
        ({"extra": {"cache_type_k": "q8"}}, "'q8_0'"),
        ({"extra": {"speculative.types": "ngram-simple,dflash"}}, "dflash"),
        ({"warm_up": [{"path": "v1", "body": {}}]}, "payload 1"),
        ({"warm_up": [{"path": "/v1/completions", "body": 3}]}, "payload 1"),
    ],
)
def test_bad_flags_are_refused(flags: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        LlamaCpp(NOWHERE, **flags)
