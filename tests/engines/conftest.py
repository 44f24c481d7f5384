from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.app.server import Launch, Server
from outrider.engines.llamacpp import LlamaCpp
from outrider.models.weights import Weights
from tests.e2e.outrider_process import free_port
from tests.models.real import SHA256, smollm


def ignore(_: object) -> None:
    """A report that nobody reads."""


def await_ready(engine: Server, limit: float = 60.0) -> float:
    """Probe until the engine answers, as a runner does; seconds that it took."""
    began = time.monotonic()
    while not engine.probe():
        assert time.monotonic() - began < limit, "the engine did not answer"
        time.sleep(0.02)  # the interval between two probes of a real process
    return time.monotonic() - began


@pytest.fixture(scope="session")
def model() -> Path:
    """The real model's file."""
    return smollm()


@pytest.fixture(scope="session")
def weights(model: Path) -> Weights:
    """The real model where it lies, checked."""
    return Weights(f"path:{model}", sha256=SHA256)


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    """What a runner would hand to an engine."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(mode=0o700)
    return Launch("hello", "127.0.0.1", free_port(), "or-test-key", tmp_path / "engine.log", scratch)


@pytest.fixture(scope="session")
def running(weights: Weights, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LlamaCpp, Launch]]:
    """One real engine, ready and warmed up, with embeddings; for tests that only ask it."""
    scratch = tmp_path_factory.mktemp("engine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTRIDER_CACHE", str(scratch / "cache"))
        engine = LlamaCpp(weights, slots=2, context=1024, embeddings=True, extra={"speculative.types": "ngram-simple"})
        engine.prepare(ignore)
    launch = Launch("hello", "127.0.0.1", free_port(), "or-test-key", scratch / "engine.log", scratch)
    engine.start(launch)
    try:
        await_ready(engine)
        engine.warm_up(ignore)
        yield engine, launch
    finally:
        engine.stop(5.0)


@pytest.fixture
def starter(weights: Weights, launch: Launch) -> Iterator[Callable[..., LlamaCpp]]:
    """Starts engines of its own for one test, and ends them after it."""
    started: list[LlamaCpp] = []

    def start(**flags: object) -> LlamaCpp:
        engine = LlamaCpp(weights, slots=1, context=256, **flags)  # type: ignore[arg-type]
        engine.prepare(ignore)
        engine.start(replace(launch))
        started.append(engine)
        return engine

    yield start
    for engine in started:
        engine.stop(1.0)
