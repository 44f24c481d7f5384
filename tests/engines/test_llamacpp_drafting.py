"""llama.cpp drafts for the real model, with a DFlash and a DFlash 2. Only ``make test-drafting`` runs these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from benchmarks.drafter.agreement import BOUNDS

from outrider.app.server import Launch
from outrider.drafting.gguf_export import export_gguf
from outrider.engines import normalise
from outrider.engines.llamacpp import LlamaCpp
from outrider.engines.normalise import EngineMetrics
from outrider.engines.probes import EngineAddress
from outrider.engines.speculation import Speculation
from outrider.models.weights import Weights
from tests.drafting import random_drafter
from tests.e2e.outrider_process import free_port
from tests.engines.conftest import await_ready, ignore
from tests.engines.drafting_parts import (
    LIMIT,
    QUESTIONS,
    SHIPPED,
    Answered,
    ask,
    compared,
    measured,
    one_wrong,
    regrets,
)
from tests.models.real import smollm

pytestmark = [pytest.mark.drafting, pytest.mark.e2e, pytest.mark.timeout(600)]
TOLERANCE = 1.0
"""Logits by which Q4_1 arithmetic (activations rounded to 8 bits) may be wrong about which token is the best."""
Running = tuple[list[Answered], EngineMetrics]


@contextmanager
def answering(source: Path, scratch: Path, questions: Sequence[str]) -> Iterator[Running]:
    """A real llama.cpp that has answered the questions with a drafter."""
    file = export_gguf(source, scratch / "drafter.gguf", target_model=smollm())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTRIDER_CACHE", str(scratch / "cache"))
        engine = LlamaCpp(
            Weights(f"path:{smollm()}"),
            slots=1,
            context=512,
            speculation=Speculation("dflash", tokens=7, drafter=Weights(f"path:{file}"), quantization="Q8_0"),
        )
        engine.prepare(ignore)
    launch = Launch("hello", "127.0.0.1", free_port(), "or-test-key", scratch / "engine.log", scratch)
    engine.start(launch)
    try:
        await_ready(engine)
        answered = ask("llamacpp", launch, questions)
        address = EngineAddress(f"http://{launch.host}:{launch.port}", launch.key)
        yield answered, normalise.llamacpp(address.text("/metrics", timeout=5))
    finally:
        engine.stop(5.0)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With the drafter that ships."""
    with answering(SHIPPED, tmp_path_factory.mktemp("dflash"), QUESTIONS) as found:
        yield found


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """With a DFlash 2 of random weights, which accepts next to nothing and so is asked less."""
    scratch = tmp_path_factory.mktemp("dflash2")
    source = random_drafter.write(scratch / "second", random_drafter.SECOND)
    with answering(source, scratch, QUESTIONS[:3]) as found:
        yield found


@pytest.fixture(params=["shipped", "second"])
def running(request: pytest.FixtureRequest) -> Running:
    """Either."""
    found: Running = request.getfixturevalue(request.param)
    return found


def test_it_drafts_and_says_how_well(running: Running) -> None:
    answered, metrics = running
    assert metrics.drafts and metrics.drafted_tokens and metrics.acceptance_length is not None
    assert metrics.drafts < metrics.drafted_tokens <= 7 * metrics.drafts
    assert 1.0 <= metrics.acceptance_length <= 8.0
    # Near the limit of an answer there may be no room for a draft.
    steps = sum(said.steps for _, said in answered)
    again = sum(not said.steps for _, said in answered)
    assert again < len(answered) / 2
    # Those were asked for twice, and their steps are not known.
    assert metrics.drafts == pytest.approx(steps, abs=len(answered) + 2 * LIMIT * again)


def test_the_reference_accepts_as_much_on_the_same_answers(shipped: Running) -> None:
    answered, metrics = shipped
    reference = measured(answered, precision="float32")
    found = compared(answered, reference)
    assert found.prompts >= 8, found
    assert found.agrees(BOUNDS["llamacpp"]), found
    # The page counts also the steps that an answer's end has cut short.
    assert metrics.acceptance_length == pytest.approx(reference.tau(), rel=BOUNDS["llamacpp"].share)


def test_what_it_says_is_what_the_target_says(running: Running) -> None:
    answered, _ = running
    for prompt, said in answered:
        assert max(regrets(prompt, said.tokens)) <= TOLERANCE


def test_a_wrong_token_would_be_seen(running: Running) -> None:
    answered, _ = running
    for prompt, said in answered:
        assert max(regrets(prompt, one_wrong(said.tokens))) > TOLERANCE


def test_a_directory_is_no_drafter_for_it(tmp_path: Path) -> None:
    from outrider.errors import DrafterUnfit

    source = random_drafter.write(tmp_path / "drafter")
    drafting = Speculation("dflash", drafter=Weights(f"path:{source}"), quantization="none")
    engine = LlamaCpp(Weights(f"path:{smollm()}"), speculation=drafting)
    with pytest.raises(DrafterUnfit, match="outrider drafter export"):
        engine.prepare(ignore)
