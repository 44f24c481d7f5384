"""vLLM drafts with a DFlash on the CPU, in its own environment. Only ``make test-vllm`` runs these."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.drafter.agreement import BOUNDS

from outrider.app.server import Launch
from outrider.engines import normalise
from outrider.engines.normalise import EngineMetrics
from outrider.engines.probes import EngineAddress
from outrider.engines.speculation import Speculation
from outrider.engines.vllm import VLLM
from outrider.models.checked import DraftWeights
from outrider.models.weights import Weights
from tests.e2e.outrider_process import free_port
from tests.engines import vllm_parts
from tests.engines.conftest import await_ready, ignore
from tests.engines.drafting_parts import SHIPPED, Answered, ask, compared, measured, one_wrong, regrets

pytestmark = [pytest.mark.vllm, pytest.mark.e2e, pytest.mark.timeout(900)]
TOLERANCE = 1.0
"""Logits: in bf16 numbers between 16 and 32, as this model's largest logits are, lie 0.125 apart, and sums err more."""
Running = tuple[list[Answered], EngineMetrics]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A real vLLM that has answered every prompt with the drafter, which was held against its target before."""
    scratch = tmp_path_factory.mktemp("vllm-drafting")
    weights = Weights(f"path:{vllm_parts.weights()}")
    drafting = DraftWeights(f"path:{SHIPPED}", target=weights, method="dflash", tokens=7)
    engine = VLLM(
        weights,
        vllm_parts.environment(),
        dtype="bfloat16",
        context=1024,
        slots=2,
        kv_cache_gib=1,
        threads=1,
        eager=True,
        speculation=Speculation("dflash", tokens=7, drafter=drafting, quantization="none"),
    )
    engine.prepare(ignore)
    launch = Launch("hello", "127.0.0.1", free_port(), "or-test-key", scratch / "engine.log", scratch)
    engine.start(launch)
    try:
        await_ready(engine, 600)
        answered = ask("vllm", launch)
        address = EngineAddress(f"http://{launch.host}:{launch.port}", launch.key)
        yield answered, normalise.vllm(address.text("/metrics", timeout=5))
    finally:
        engine.stop(30.0)


def test_it_drafts_and_says_how_well(running: Running) -> None:
    answered, metrics = running
    assert metrics.drafts and metrics.acceptance_length is not None
    assert 1.5 < metrics.acceptance_length <= 8.0
    assert len(metrics.accepted_by_position) == 7
    steps = sum(said.steps for _, said in answered)
    assert metrics.drafts == pytest.approx(steps, abs=2 * len(answered))


def test_the_reference_accepts_as_much_on_the_same_answers(running: Running) -> None:
    answered, _ = running
    found = compared(answered, measured(answered, precision="bfloat16"))
    assert found.prompts >= 8, found
    assert found.agrees(BOUNDS["vllm"]), found


def test_what_it_says_is_what_the_target_says(running: Running) -> None:
    answered, _ = running
    for prompt, said in answered:
        assert max(regrets(prompt, said.tokens)) <= TOLERANCE
        assert max(regrets(prompt, one_wrong(said.tokens))) > TOLERANCE
