"""Whether an engine still makes tokens, by a clock of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from outrider.engines.liveness import INTERVAL, PATIENCE, Liveness
from outrider.engines.normalise import EngineMetrics, llamacpp, sglang
from outrider.errors import ReplicaFailed

IDLE = EngineMetrics(running=0, waiting=0, prompt_tokens=5, generated_tokens=5)


class Engine:
    """One engine as the liveness sees it, with a clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.page = IDLE
        self.asked = 0
        self.trouble: Exception | None = None
        self.liveness = Liveness(lambda: self.now)

    def alive(self, after: float = 0.0) -> bool:
        self.now += after
        return self.liveness.alive(self.read, self.token)

    def read(self) -> EngineMetrics:
        return self.page

    def token(self) -> None:
        self.asked += 1
        if self.trouble is not None:
            raise self.trouble


@pytest.fixture
def engine() -> Engine:
    made = Engine()
    made.liveness.begin()
    return made


def test_an_idle_engine_is_asked_for_a_token_now_and_then(engine: Engine) -> None:
    assert [engine.alive(1.0) for _ in range(int(INTERVAL * 3))] == [True] * int(INTERVAL * 3)
    assert engine.asked == 3


@pytest.mark.parametrize("trouble", [TimeoutError("late"), ReplicaFailed("wrong answer"), ConnectionRefusedError()])
def test_one_that_gives_none_is_dead_until_it_does(engine: Engine, trouble: Exception) -> None:
    engine.trouble = trouble
    assert not engine.alive(INTERVAL)
    assert not engine.alive(1.0), "it is asked again at once"
    engine.trouble = None
    assert engine.alive(1.0)
    assert engine.asked == 3


def test_a_busy_engine_is_alive_while_tokens_move(engine: Engine) -> None:
    for count in range(10):
        engine.page = EngineMetrics(running=4, waiting=9, prompt_tokens=5, generated_tokens=count)
        assert engine.alive(INTERVAL)
    assert engine.asked == 0


@pytest.mark.parametrize("grown", ["prompt_tokens", "generated_tokens", "work"])
def test_a_busy_engine_without_movement_is_dead(engine: Engine, grown: str) -> None:
    stuck = EngineMetrics(running=1, prompt_tokens=5, generated_tokens=5)
    engine.page = stuck
    assert engine.alive(INTERVAL)
    assert engine.alive(PATIENCE)
    assert not engine.alive(INTERVAL)
    engine.page = replace(stuck, **{grown: 9})  # type: ignore[arg-type]
    assert engine.alive(1.0)


def llamacpp_page(steps: int) -> EngineMetrics:
    """llama.cpp amid one long stream: of its totals only this one rises before the stream ends."""
    return llamacpp(
        "llamacpp:requests_processing 1\nllamacpp:prompt_tokens_total 65\nllamacpp:tokens_predicted_total 22\n"
        f"llamacpp:n_decode_total {steps}\n"
    )


def sglang_page(tokens: int) -> EngineMetrics:
    """SGLang amid one long stream, its per-token histogram apart."""
    return sglang(
        "sglang:num_running_reqs 1\nsglang:prompt_tokens_total 65\nsglang:generation_tokens_total 22\n"
        f'sglang:realtime_tokens_total{{mode="decode"}} {tokens}\n'
    )


@pytest.mark.parametrize("page", [llamacpp_page, sglang_page])
def test_a_stream_longer_than_anybodys_patience_is_alive(engine: Engine, page: Callable[[int], EngineMetrics]) -> None:
    for count in range(int(10 * PATIENCE / INTERVAL)):
        engine.page = page(count)
        assert engine.alive(INTERVAL)
    assert engine.asked == 0


@pytest.mark.parametrize("end", [lambda engine: engine.liveness.end(), lambda engine: engine.__init__()])
def test_before_it_is_warm_and_after_its_end_nobody_looks(engine: Engine, end: Callable[[Engine], None]) -> None:
    end(engine)
    engine.trouble = ReplicaFailed("asked")
    assert engine.alive(INTERVAL * 10)
    assert engine.asked == 0
