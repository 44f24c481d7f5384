"""``sim``: what would happen, without a machine to try it on. Runs here; nothing needs to be up."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.cli.terminal import console, say, show_json, show_table
from outrider.errors import UsageError

if TYPE_CHECKING:
    from outrider.sim.routing import Outcome, Scene
    from outrider.sim.traces import SimulatedRequest

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Replay traffic through routing policies, without a machine.",
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
_BAR_FROM = 5000
"""Requests times policies above which there is a progress bar: about two seconds."""


@app.command()
def route(
    trace: Annotated[Path, typer.Option(help="JSONL file of requests (docs/reference/trace.md).")],
    replicas: Annotated[int, typer.Option(min=1, max=1024, help="Replicas.")] = 4,
    policy: Annotated[list[str] | None, typer.Option(help="Only this policy; repeatable. Default: all.")] = None,
    prefill_rate: Annotated[
        float, typer.Option(min=1, max=1e8, help="Prompt tokens a second a replica reads.")
    ] = 8000.0,
    itl: Annotated[float, typer.Option(min=0, max=1e6, help="Seconds a token of an answer.")] = 0.012,
    max_concurrency: Annotated[int, typer.Option(min=1, help="Requests a replica holds.")] = 32,
    kv_tokens: Annotated[int, typer.Option(min=0, help="Tokens a replica keeps cached.")] = 400_000,
    ttft_penalty: Annotated[
        float,
        typer.Option(min=0, max=1e8, help="Seconds of waiting taken on for a cached prefix (slack ÷ prefill rate)."),
    ] = 0.5,
    seed: Annotated[int, typer.Option(help="Of the draws between replicas.")] = 0,
    as_json: Json = False,
) -> None:
    """Replay a trace through routing policies: cache hits, imbalance and waiting of each.

    The policies and their counting are the gateway's own code; replicas and time are simulated. "gateway" is the
    policy in use: by affinity key where a request names one, else by prefix.
    """
    from outrider.loadgen.traces import read_trace
    from outrider.sim import policies
    from outrider.sim.replicas import Hardware
    from outrider.sim.routing import Scene
    from outrider.sim.traces import simulated

    _check_numbers(prefill_rate=prefill_rate, itl=itl, ttft_penalty=ttft_penalty)
    names = policy or list(policies.POLICIES)
    for name in names:
        policies.policy(name)  # a wrong name is told before the work, not after half of it
    requests = simulated(read_trace(trace))
    hardware = Hardware(prefill_rate, itl, max_concurrency, kv_tokens)
    scene = Scene(replicas, hardware, ttft_penalty, seed)
    outcomes = _replayed(requests, names, scene, bar=not as_json)
    if as_json:
        show_json(_view(requests, scene, outcomes))
        return
    seconds = requests[-1].at - requests[0].at
    say(f"{len(requests)} requests in {seconds:.0f} s, {replicas} replicas, slack {scene.slack} tokens", "dim")
    show_table(
        ("policy", "hit rate", "imbalance", "wait p50", "p95", "p99", "TTFT p50", "p95", "p99"),
        [_row(name, outcome) for name, outcome in outcomes.items()],
    )


@app.command("trace")
def make_trace(
    profile: Annotated[str, typer.Option(help="realtime, agentic or chat.")] = "agentic",
    seconds: Annotated[float, typer.Option(min=0.1, max=1e6, help="How long.")] = 60.0,
    rate: Annotated[float, typer.Option(min=0.001, max=1e4, help="Requests a second, on average.")] = 5.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same trace.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list and not a line a request.")] = False,
) -> None:
    """Print a made-up trace: Poisson arrivals, some prompts' beginnings more popular than others."""
    import sys

    from outrider.loadgen.sources import generate, sources
    from outrider.loadgen.traces import fields, write_trace

    _check_numbers(seconds=seconds, rate=rate)
    made = generate(sources(profile), seconds=seconds, rate=rate, seed=seed)
    if as_json:
        show_json([fields(arrival) for arrival in made])
    else:
        write_trace(sys.stdout, made)


def _check_numbers(**options: float) -> None:
    for name, value in options.items():
        if math.isnan(value):  # is neither below a bound nor above it
            raise UsageError(f"--{name.replace('_', '-')} is no number", remedy="See: outrider sim --help")


def _replayed(requests: list[SimulatedRequest], names: list[str], scene: Scene, *, bar: bool) -> dict[str, Outcome]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from outrider.sim import policies, routing

    total = len(requests) * len(names)
    shown = bar and console.is_terminal and total > _BAR_FROM
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    outcomes = {}
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:
        task = progress.add_task("", total=total)
        for name in names:
            progress.update(task, description=f"{name:<14}")
            outcomes[name] = routing.replay(
                requests, policies.policy(name), scene, on_done=lambda: progress.advance(task)
            )
    return outcomes


def _row(name: str, outcome: Outcome) -> tuple[str, ...]:
    wait, ttft = outcome.wait, outcome.ttft
    spans = (wait.p50, wait.p95, wait.p99, ttft.p50, ttft.p95, ttft.p99)
    return (name, f"{outcome.hit_rate:.1%}", f"{outcome.imbalance:.2f}", *(f"{span:.3f} s" for span in spans))


def _view(requests: list[SimulatedRequest], scene: Scene, outcomes: dict[str, Outcome]) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "requests": len(requests),
        "scene": asdict(scene) | {"slack": scene.slack},
        "policies": {name: asdict(outcome) for name, outcome in outcomes.items()},
    }
