"""llama.cpp drafts for the real model, with a DFlash and a DFlash 2. Only ``make test-drafting`` runs these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.app.server import Launch
from outrider.drafting.gguf_export import export_gguf
from outrider.engines import normalise
from outrider.engines.llamacpp import LlamaCpp
from outrider.engines.normalise import EngineMetrics
from outrider.engines.probes import EngineAddress
from outrider.engines.speculation import Speculation
from outrider.models.weights import Weights
from tests.drafting import random_drafter
from tests.engines.conftest import await_ready, free_port, ignore
from tests.engines.drafting_parts import Answered, ask, drafter, prompts, regrets
from tests.models.real import smollm

pytestmark = [pytest.mark.drafting, pytest.mark.e2e, pytest.mark.timeout(600)]
TOLERANCE = 1.0
"""Logits by which Q4_1 arithmetic (activations rounded to 8 bits) may be wrong about which token is the best."""
Running = tuple[EngineAddress, list[Answered], EngineMetrics]


def address(launch: Launch) -> EngineAddress:
    return EngineAddress(f"http://{launch.host}:{launch.port}", launch.key)


@pytest.fixture(scope="module", params=["dflash", "dflash2"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A real llama.cpp that has answered every prompt with a drafter."""
    scratch = tmp_path_factory.mktemp(request.param)
    second = request.param == "dflash2"
    source = random_drafter.write(scratch / "second", random_drafter.SECOND) if second else drafter(scratch)
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
        said = [ask(address(launch), prompt) for prompt in prompts()]
        yield address(launch), said, normalise.llamacpp(address(launch).text("/metrics", timeout=5))
    finally:
        engine.stop(5.0)


def test_it_drafts_and_says_how_well(running: Running) -> None:
    _, said, metrics = running
    tokens = sum(len(one.answer) for one in said)
    assert metrics.drafts and metrics.drafted_tokens and metrics.acceptance_length is not None
    assert metrics.drafts < metrics.drafted_tokens <= 7 * metrics.drafts
    assert 1.0 <= metrics.acceptance_length <= 8.0
    # Each answer's first token comes from its prompt's pass; the others from a step, which commits τ of them.
    steps = (tokens - len(said)) / metrics.acceptance_length
    assert metrics.drafts == pytest.approx(steps, abs=2 * len(said))


def test_what_it_says_is_what_the_target_says(running: Running) -> None:
    _, said, _ = running
    for one in said:
        assert max(regrets(one)) <= TOLERANCE


def test_a_wrong_token_would_be_seen(running: Running) -> None:
    _, said, _ = running
    for one in said:
        middle = len(one.answer) // 2
        wrong = replace(one, answer=(*one.answer[:middle], 4242, *one.answer[middle + 1 :]))
        assert max(regrets(wrong)) > TOLERANCE


def test_a_directory_is_no_drafter_for_it(tmp_path: Path) -> None:
    from outrider.errors import DrafterUnfit

    source = random_drafter.write(tmp_path / "drafter")
    drafting = Speculation("dflash", drafter=Weights(f"path:{source}"), quantization="none")
    engine = LlamaCpp(Weights(f"path:{smollm()}"), speculation=drafting)
    with pytest.raises(DrafterUnfit, match="outrider drafter export"):
        engine.prepare(ignore)
