"""``bench``: measure an endpoint or any OpenAI-compatible server under load."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from outrider.cli.terminal import say, show_json
from outrider.client.http import Client
from outrider.errors import InvalidInput, UsageError

if TYPE_CHECKING:
    from outrider.loadgen.benchmark import Plan, Result
    from outrider.loadgen.profiles import Profile
    from outrider.loadgen.target import Target

_DEFAULT_CONCURRENCY = (1,)
_TARGET = "An endpoint's name, or the URL of an OpenAI-compatible server."
_COMPARE = "A second target, run interleaved with the first: a name, a URL, or `engine` (past the gateway)."


def bench(
    target: Annotated[str, typer.Argument(metavar="NAME|URL", help=_TARGET)],
    compare: Annotated[str | None, typer.Option(metavar="NAME|URL|engine", help=_COMPARE)] = None,
    profile: Annotated[Literal["chat", "realtime", "agentic"], typer.Option(help="Lengths of requests.")] = "chat",
    trace: Annotated[Path | None, typer.Option(help="Requests from a JSONL file instead of a profile.")] = None,
    concurrency: Annotated[
        list[int] | None, typer.Option("--concurrency", "-c", min=1, help="Requests in flight; again for a sweep.")
    ] = None,
    rate: Annotated[
        list[float] | None, typer.Option("--rate", "-r", min=0.001, help="Open loop: requests/s; again for a sweep.")
    ] = None,
    arrivals: Annotated[Literal["poisson", "constant"], typer.Option(help="How an open loop's come.")] = "poisson",
    requests: Annotated[int, typer.Option("--requests", "-n", min=1, help="Requests for each load and target.")] = 50,
    rounds: Annotated[int, typer.Option(min=1, help="Turns in which two targets share a load.")] = 5,
    input_tokens: Annotated[
        int | None, typer.Option(min=1, help="Instead of the profile's, shared ones in it.")
    ] = None,
    output_tokens: Annotated[int | None, typer.Option(min=1, help="Instead of the profile's.")] = None,
    shared_tokens: Annotated[int | None, typer.Option(min=0, help="Leading tokens in common.")] = None,
    context: Annotated[int | None, typer.Option(min=8, help="Tokens the model holds, where no server says.")] = None,
    model: Annotated[
        str | None, typer.Option(help="What requests name; default: the endpoint, or the only one.")
    ] = None,
    key: Annotated[str | None, typer.Option(envvar="OUTRIDER_API_KEY", help="Key of the target.")] = None,
    compare_key: Annotated[str | None, typer.Option(help="Key of the second target; default: the first's.")] = None,
    warm_up: Annotated[int, typer.Option(min=0, help="Requests before the measurement.")] = 2,
    seed: Annotated[int | None, typer.Option(help="Repeat a run's traffic; default: new prompts each time.")] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for one request.")] = 600.0,
    ignore_eos: Annotated[bool, typer.Option(help="Ask for answers of exactly that length.")] = True,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write everything as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw it: .png, .svg or .pdf.")] = None,
    curve: Annotated[bool, typer.Option("--curve", help="Print a recipe's capacity_curve.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, without the single requests.")] = False,
) -> None:
    """Measure an endpoint, or any OpenAI server, under load.

    Prints TTFT, ITL, whole requests, output and total tokens/s with 95 % confidence intervals. ITL is
    (last - first content event) / (tokens - 1) of a request; the gap between events is shown apart.
    """
    if curve and (rate or trace):
        raise UsageError("--curve does not go with --rate or --trace", remedy="A curve is over --concurrency.")
    _check_files(output, plot)
    from outrider.loadgen.benchmark import Plan
    from outrider.loadgen.traces import read_trace

    shapes = None if trace else _profile(profile, input_tokens, output_tokens, shared_tokens)
    arrived = tuple(read_trace(trace)) if trace else ()
    plan = Plan(
        targets=tuple(_targets(target, compare, model=model, keys=(key, compare_key or key), context=context)),
        profile=shapes,
        trace=arrived,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        concurrencies=tuple(concurrency or (() if rate or trace else _DEFAULT_CONCURRENCY)),
        rates=tuple(rate or ()),
        arrival=arrivals,
        requests=requests,
        rounds=rounds,
        warm_up=warm_up,
        timeout=timeout,
        ignore_eos=ignore_eos,
    )
    result = _run(plan, quiet=as_json)
    data = _write(result, output, plot)
    _show(result, data, as_json=as_json, curve=curve)


def _run(plan: Plan, *, quiet: bool) -> Result:
    from outrider.cli.benching import show_workload, shown_progress
    from outrider.loadgen.benchmark import run

    if not quiet:
        show_workload(plan)
    with shown_progress(quiet=quiet) as progress:
        return run(plan, progress)


def _write(result: Result, output: Path | None, plot: Path | None) -> dict[str, Any]:
    import json
    from datetime import UTC, datetime

    from outrider._version import __version__
    from outrider.cli.benching import title
    from outrider.placement.discover import discover
    from outrider.spec.home import Home

    machine = discover(Home.from_environment())
    data = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "cpu": machine.cpu_model,
            "cores": machine.cores,
            "memory_bytes": machine.memory_bytes,
            "load_average": round(os.getloadavg()[0], 2),
        },
        "versions": {"outrider": __version__},
        **result.as_dict(),
    }
    if output is not None:
        output.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if plot is not None:
        from outrider.loadgen.plot import plot as draw

        draw(data, plot, title=title(data))
    return data


def _show(result: Result, data: dict[str, Any], *, as_json: bool, curve: bool) -> None:
    from outrider.loadgen.report import curve_point

    points = [curve_point(row) for row in data["rows"]] if curve else []
    if as_json:
        extra = {"capacity_curve": points} if curve else {}
        show_json({**{name: value for name, value in data.items() if name != "requests"}, **extra})
        return
    from outrider.cli.benching import show_rows

    show_rows(data, interrupted=result.interrupted)
    if curve:
        say()
        say("capacity_curve:")
        for point in points:
            say("  - {" + ", ".join(f"{name}: {value:g}" for name, value in point.items()) + "}")


def _targets(
    first: str, second: str | None, *, model: str | None, keys: tuple[str | None, str | None], context: int | None
) -> list[Target]:
    from outrider.loadgen.target import looked_up

    found = [_target(first, model, keys[0])]
    if second == "engine":
        found.append(_engine(first))
    elif second is not None:
        found.append(_target(second, model if _is_url(second) else None, keys[1]))
    if len({target.label for target in found}) != len(found):
        found = [replace(target, label=f"{target.label} {'AB'[index]}") for index, target in enumerate(found)]
    return [replace(looked_up(target), context=context) if context else looked_up(target) for target in found]


def _target(text: str, model: str | None, key: str | None) -> Target:
    from outrider.loadgen.target import Target, base_url

    if _is_url(text):
        url = base_url(text)
        return Target(url, model or "", key, label=url.partition("://")[2].removesuffix("/v1"))
    with Client() as client:
        view = client.endpoint(text)
        context = _context(client, text)
    if view["task"] != "generate" or not view["url"]:
        why = f"its task is {view['task']}" if view["url"] else "the gateway is not up"
        raise InvalidInput(f"{text} cannot be measured", why=why, remedy="Measure an endpoint that generates text.")
    return Target(base_url(view["url"]), text, key, context=context, label=text)


def _engine(name: str) -> Target:
    """The same endpoint's engine, past the gateway."""
    from outrider.loadgen.target import Target, base_url

    if _is_url(name):
        raise UsageError("--compare engine needs an endpoint's name", remedy="Give the engine's URL instead.")
    with Client() as client:
        if not client.local:
            raise UsageError("--compare engine works on the engine's own machine", remedy="Run it there.")
        engine, context = client.engine(name), _context(client, name)
    return Target(base_url(engine["url"]), name, engine["key"], context=context, label="engine")


def _context(client: Client, name: str) -> int | None:
    """What the endpoint's own flag says that a request may hold."""
    declaration = client.revision(name).get("declaration") or {}
    found = ((declaration.get("engine") or {}).get("flags") or {}).get("context")
    return found if isinstance(found, int) else None


def _profile(name: str, input_tokens: int | None, output_tokens: int | None, shared: int | None) -> Profile:
    from outrider.loadgen.profiles import PROFILES

    profile = PROFILES[name]
    if input_tokens is None and output_tokens is None and shared is None:
        return profile
    usual = profile.shared + profile.input
    whole = usual if input_tokens is None else input_tokens
    common = profile.shared * whole // usual if shared is None else shared  # the profile's share of another length
    if whole <= common:
        raise UsageError(f"{common} shared tokens leave nothing of {whole}", remedy="Raise --input-tokens.")
    # Lengths that were asked for are meant: they do not vary.
    answer = profile.output if output_tokens is None else output_tokens
    return replace(profile, shared=common, input=whole - common, output=answer, spread=0.0)


def _check_files(output: Path | None, plot: Path | None) -> None:
    """Refuse what could not be written, before minutes go by for it."""
    paths: Sequence[Path] = [path for path in (output, plot) if path is not None]
    for path in paths:
        if not path.parent.is_dir() or path.is_dir() or not os.access(path.parent, os.W_OK):
            why = "it is a directory" if path.is_dir() else f"{path.parent} is no directory that can be written to"
            raise InvalidInput(f"{path} cannot be written", why=why, remedy="Give a file in a directory of yours.")
    if plot is not None:
        from outrider.loadgen.plot import check_plot

        check_plot(plot)


def _is_url(text: str) -> bool:
    return "://" in text
