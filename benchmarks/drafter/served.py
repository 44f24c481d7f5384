"""One run of one engine, as a replica lives: prepared, started, probed, warmed up, asked, probed deeply, ended.

Each stage is timed, and what went wrong in it is kept in the words in which it was said.
"""

from __future__ import annotations

import argparse
import math
import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import rich.progress
from benchmarks.drafter.answers import Answer, Client

from outrider.app.environment import Environment
from outrider.app.server import Launch, Progress
from outrider.engines.base import EngineEnvironment
from outrider.engines.liveness import INTERVAL
from outrider.engines.normalise import NORMALISERS, EngineMetrics
from outrider.engines.python_engine import PythonEngine
from outrider.engines.sglang import SGLang
from outrider.engines.speculation import Speculation
from outrider.engines.vllm import VLLM
from outrider.errors import EngineMissing
from outrider.models.weights import Weights

Prompts = Mapping[str, Sequence[tuple[int, ...]]]
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "sglang": {
        "dtype": "bfloat16",
        "context": 4096,
        "slots": 32,
        "memory_share": 0.6,
        # Graphs as large as what is asked; the sampler that needs no compiler.
        "extra": {
            "cuda_graph_max_bs_decode": 32,
            "cuda_graph_max_bs_prefill": 2048,
            "sampling_backend": "pytorch",
            "random_seed": 0,
        },
    },
    "vllm": {
        "dtype": "bfloat16",
        "context": 4096,
        "slots": 32,
        "batch_size": 8192,
        "memory_share": 0.6,
        "extra": {"seed": 0},
    },
}
"""What each engine is started with; `--options` goes over it."""
PACKAGES = {"sglang": ("sglang==0.5.15.post1",), "vllm": ("vllm==0.24.0",)}
CLASSES: Mapping[str, type[SGLang] | type[VLLM]] = {"sglang": SGLang, "vllm": VLLM}
_LOG_LINES = 60
_GRACE = 20.0
_NAME, _KEY = "drafter", "or-benchmark-key"


@dataclass(frozen=True)
class Standing:
    """A Python that has the engine already: nothing is built.

    Attributes:
        interpreter: it.
        env: variables that the engine needs here.
    """

    interpreter: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def prepare(self, report: object) -> None:
        """It stands. Raises EngineMissing: it does not."""
        if not self.interpreter.exists():
            raise EngineMissing(f"There is no {self.interpreter}", remedy="Name a Python that has the engine.")


@dataclass
class Run:
    """What one run found.

    Attributes:
        width: requests at once under load.
        stages: each with name, whether it went well, seconds, and what was said.
        version: the engine's.
        argv: its command line.
        answers: by slice, one request in flight.
        load: by slice, tokens and seconds with ``width`` in flight.
        tau_page: τ by the engine's own metrics page through the normaliser, over the answers that were asked singly.
        page: what the normaliser made of the last page.
        left_over: processes that the engine left behind when it was stopped.
        key_in_log: whether its key stands in its log.
        problem: what ended the run early; None: nothing.
        log: the last lines of its log, where something went wrong.
    """

    width: int = 0
    stages: list[dict[str, Any]] = field(default_factory=list)
    version: str | None = None
    argv: list[str] = field(default_factory=list)
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    load: dict[str, tuple[int, float]] = field(default_factory=dict)
    tau_page: float | None = None
    page: dict[str, Any] = field(default_factory=dict)
    left_over: list[str] = field(default_factory=list)
    key_in_log: bool | None = None
    problem: str | None = None
    log: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str, *, needed: bool = True) -> Iterator[list[str]]:
        """Time a stage; what it says goes into the list it gets. An error ends the run only where it is ``needed``."""
        said: list[str] = []
        began, well = time.monotonic(), True
        try:
            yield said
        except Exception as error:
            well = False
            said.append(f"{type(error).__name__}: {error}")
            if needed:
                raise
        finally:
            seconds = round(time.monotonic() - began, 1)
            self.stages.append({"stage": name, "ok": well, "seconds": seconds, "said": said})

    def rate(self, name: str | None = None) -> float:
        """Output tokens a second under load, of one slice or of all; NaN where nothing was asked."""
        chosen = [self.load[name]] if name in self.load else ([] if name else list(self.load.values()))
        seconds = sum(took for _, took in chosen)
        return sum(tokens for tokens, _ in chosen) / seconds if seconds else math.nan

    def emit(self) -> dict[str, Any]:
        """For JSON: all but the answers."""
        wrong = self.problem is not None or not all(one["ok"] for one in self.stages)
        return {
            "version": self.version,
            "problem": self.problem,
            "stages": self.stages,
            "argv": self.argv,
            "page": self.page,
            "left_over": self.left_over,
            "key_in_log": self.key_in_log,
            "load": {name: {"tokens": count, "seconds": round(took, 3)} for name, (count, took) in self.load.items()},
            "log": self.log if wrong else [],
        }

    def raw(self) -> dict[str, list[dict[str, Any]]]:
        """The answers, for JSON."""
        return {
            name: [{"tokens": one.tokens, "chunks": one.chunks, "seconds": one.seconds} for one in said]
            for name, said in self.answers.items()
        }


def serve(
    options: argparse.Namespace, prompts: Prompts, drafter: Path | None, kept: Path, progress: rich.progress.Progress
) -> Run:
    """Start an engine, ask it everything, end it. Never raises: what went wrong is in the run."""
    run = Run(width=options.width)
    kept.mkdir(parents=True, exist_ok=True)
    scratch = kept / "scratch"
    scratch.mkdir(mode=0o700, exist_ok=True)
    launch = Launch(_NAME, "127.0.0.1", _free_port(), _KEY, kept / "engine.log", scratch)
    launch.log.unlink(missing_ok=True)
    engine: PythonEngine | None = None
    try:
        with run.stage("describe"):
            engine = made(options, drafter)
        _start(run, engine, launch, min(options.patience, options.until - time.monotonic()))
        _measure(run, engine, launch, options, prompts, progress)
    except Exception as error:
        run.problem = f"{type(error).__name__}: {error}"
    finally:
        if engine is not None:
            _stop(run, engine)
        log = launch.log.read_text(errors="replace") if launch.log.exists() else ""
        run.key_in_log, run.log = _KEY in log, log.splitlines()[-_LOG_LINES:]
    return run


def made(options: argparse.Namespace, drafter: Path | None) -> PythonEngine:
    """The engine's object as a ``serve.py`` would hold it. Raises InvalidInput."""
    variables = dict(word.partition("=")[::2] for word in options.variable)
    environment: EngineEnvironment
    if options.python is not None:
        environment = Standing(options.python.absolute(), variables)
    else:
        environment = Environment(packages=options.packages or PACKAGES[options.engine], env=variables)
    speculation = None
    if drafter is not None:
        weights = Weights(f"path:{drafter.absolute()}")
        speculation = Speculation("dflash", tokens=7, drafter=weights, quantization="none")
    wanted = {**OPTIONS[options.engine], **options.options}
    chosen = CLASSES[options.engine]
    return chosen(Weights(f"path:{options.target.absolute()}"), environment, speculation=speculation, **wanted)


def _start(run: Run, engine: PythonEngine, launch: Launch, patience: float) -> None:
    with run.stage("prepare") as said:
        engine.prepare(lambda progress: said.append(progress.detail))
        run.version = engine.version()
    with run.stage("start"):
        run.argv = [*engine.command(launch), *engine.arguments]
        engine.start(launch)
        until = time.monotonic() + patience
        while not engine.probe():
            if time.monotonic() > until:
                raise TimeoutError(f"not ready within {patience:.0f} s")
            time.sleep(0.1)
    with run.stage("warm_up", needed=False) as said:
        engine.warm_up(_telling(said))
    if not run.stages[-1]["ok"]:
        engine.payloads = [one for one in engine.payloads if "response_format" not in one["body"]]
        with run.stage("warm_up without a grammar", needed=False) as said:
            engine.warm_up(_telling(said))


def _telling(said: list[str]) -> Any:
    def report(progress: Progress) -> None:
        said.append(progress.detail)

    return report


def _measure(
    run: Run,
    engine: PythonEngine,
    launch: Launch,
    options: argparse.Namespace,
    prompts: Prompts,
    progress: rich.progress.Progress,
) -> None:
    warm = time.monotonic()
    client, normalise = Client(options.engine, launch, options.limit), NORMALISERS[options.engine]
    every = [asked for chosen in prompts.values() for asked in chosen]
    with run.stage("first requests"):  # kernels of shapes that come first are compiled here, not where time is taken
        client.one_by_one(every[:2], lambda: None)
        client.together(every[: 2 * options.width], options.width)
    before = _page(run, client, launch, normalise, "before", needed=True)
    task = progress.add_task("one at a time", total=len(every))

    def done() -> None:
        progress.advance(task)
        if time.monotonic() > options.until:
            raise TimeoutError("the time for all of it is over")

    with run.stage("one at a time"):
        for name, chosen in prompts.items():
            run.answers[name] = client.one_by_one(chosen, done)
    after = _page(run, client, launch, normalise, "after", needed=False)
    if before is not None and after is not None:
        run.tau_page = after.since(before)
    with run.stage(f"{options.width} at a time"):
        for name, chosen in prompts.items():
            run.load[name] = client.together([*chosen] * options.rounds, options.width)
    last = _page(run, client, launch, normalise, "last", needed=False)
    run.page = _said(last) if last is not None else {}
    with run.stage("deep probe", needed=False) as said:
        time.sleep(max(0.0, warm + INTERVAL + 0.5 - time.monotonic()))
        healthy = engine.probe()
        found = normalise(client.page())
        tokens = (found.generated_tokens or 0) - ((last.generated_tokens if last else None) or 0)
        said.append(f"healthy: {healthy}; it asked for {tokens} token")


def _page(run: Run, client: Client, launch: Launch, normalise: Any, name: str, *, needed: bool) -> EngineMetrics | None:
    """The engine's page, once its gauges say that nothing runs, or after some seconds; the text is kept."""
    found: EngineMetrics | None = None
    with run.stage(f"metrics page {name}", needed=needed) as said:
        for _ in range(20):
            text = client.page()
            found = normalise(text)
            if not found.running:
                break
            time.sleep(0.2)
        (launch.log.with_name(f"metrics-{name}.txt")).write_text(text)
        said.append("unknown: " + ", ".join(key for key, value in _said(found).items() if value is None))
    return found


def _said(found: EngineMetrics | None) -> dict[str, Any]:
    """What the normaliser understood; distributions by their count of observations."""
    values: dict[str, Any] = {}
    for name in EngineMetrics.__slots__ if found is not None else ():
        value = getattr(found, name)
        values[name] = getattr(value, "count", value) if name in ("ttft", "itl", "queue") else value
    return values


def _stop(run: Run, engine: PythonEngine) -> None:
    """End the engine; processes of its that survive it are named, and ended."""
    family = []
    if engine.pid is not None and psutil.pid_exists(engine.pid):
        family = psutil.Process(engine.pid).children(recursive=True)
    with run.stage("stop", needed=False):
        engine.stop(_GRACE)
    _, alive = psutil.wait_procs(family, timeout=10)
    for process in alive:
        try:
            run.left_over.append(re.sub(r"\s+", " ", " ".join(process.cmdline()))[:200])
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(alive, timeout=10)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
