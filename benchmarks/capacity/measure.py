"""The capacity curve of a recipe, measured on this machine: concurrency → TTFT, ITL, tokens a second.

    python benchmarks/capacity/measure.py smollm2-135m-instruct/llamacpp-cpu --concurrency 1 2 4

Starts the recipe's engine alone (no gateway before it) and puts it under closed loops with the load generator that
``outrider bench`` uses. Prompts share nothing, and every answer has the same length. Writes ``results/latest.json``,
``results/curve.png``, and prints the rows as a recipe's ``capacity_curve`` holds them.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from outrider._version import __version__
from outrider.app.server import Launch
from outrider.cli.benching import show_rows, shown_progress
from outrider.engines.llamacpp import LlamaCpp
from outrider.loadgen.benchmark import Plan, Result, run
from outrider.loadgen.plot import plot
from outrider.loadgen.profiles import Profile
from outrider.loadgen.report import curve_point
from outrider.loadgen.target import Target
from outrider.models.weights import Weights
from outrider.placement.discover import discover
from outrider.recipes.flags import is_argument
from outrider.recipes.library import load_catalog
from outrider.recipes.schema import Recipe
from outrider.spec.home import Home

RESULTS = Path(__file__).with_name("results")


def main() -> None:
    """Measure and write the result."""
    options = _options()
    recipe = load_catalog().get(options.recipe)
    with (
        tempfile.TemporaryDirectory(prefix="outrider-capacity-") as directory,
        _engine(recipe, Path(directory)) as launch,
    ):
        result = _measured(recipe, launch, options)
        memory = _resident()
    _write(recipe, options, result, memory)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("recipe", help="a llamacpp recipe's id")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--requests", type=int, default=24, help="requests for each concurrency")
    parser.add_argument("--input-tokens", type=int, default=256)
    parser.add_argument("--output-tokens", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS, help="directory to write to")
    return parser.parse_args()


@contextmanager
def _engine(recipe: Recipe, scratch: Path) -> Iterator[Launch]:
    values = {name: flag.value for name, flag in recipe.flags.items()}
    arguments: dict[str, Any] = {name: v for name, v in values.items() if is_argument(recipe.engine.name, name)}
    extra = {name: value for name, value in values.items() if name not in arguments}
    sources = [source.reference for source in recipe.weights if source.sha256 == recipe.weights[0].sha256]
    engine = LlamaCpp(weights=Weights(*sources, sha256=recipe.weights[0].sha256), extra=extra, **arguments)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    launch = Launch("capacity", "127.0.0.1", port, secrets.token_hex(16), scratch / "engine.log", scratch)
    engine.prepare(lambda progress: print(progress.detail))
    engine.start(launch)
    try:
        while not engine.probe():
            time.sleep(0.1)
        engine.warm_up(lambda progress: print(progress.detail))
        yield launch
    finally:
        engine.stop(5.0)


def _measured(recipe: Recipe, launch: Launch, options: argparse.Namespace) -> Result:
    url = f"http://{launch.host}:{launch.port}/v1"
    target = Target(url, launch.name, launch.key, context=recipe.limits.max_context, label=recipe.id)
    profile = Profile("capacity", shared=0, input=options.input_tokens, output=options.output_tokens)
    concurrencies = tuple(options.concurrency)
    plan = Plan((target,), profile, options.seed, concurrencies=concurrencies, requests=options.requests)
    with shown_progress(quiet=False) as progress:
        return run(plan, progress)


def _resident() -> int:
    """Resident size of the engine, this process's one child, in bytes."""
    children = psutil.Process().children(recursive=True)
    return max((child.memory_info().rss for child in children), default=0)


def _write(recipe: Recipe, options: argparse.Namespace, result: Result, memory: int) -> None:
    machine = discover(Home.from_environment())
    measured = result.as_dict()
    rows = measured["rows"]
    data = {
        "machine": {"cpu": machine.cpu_model, "cores": machine.cores, "memory_bytes": machine.memory_bytes,
                    "load_average": round(os.getloadavg()[0], 2)},
        "versions": {"outrider": __version__, "python": platform.python_version(),
                     recipe.engine.name: recipe.engine.version},
        "recipe": recipe.id,
        "flags": {name: flag.value for name, flag in recipe.flags.items()},
        "workload": {"input_tokens": options.input_tokens, "output_tokens": options.output_tokens, "loop": "closed"},
        "rounds": 1,
        "engine_resident_bytes": memory,
        "rows": rows,
        "capacity_curve": [curve_point(row) for row in rows],
        "ratios": {
            "output_tps_last_over_first": round(rows[-1]["output_tps"]["value"] / rows[0]["output_tps"]["value"], 2),
        },
    }  # fmt: skip
    options.results.mkdir(exist_ok=True)
    (options.results / "latest.json").write_text(json.dumps(data, indent=1) + "\n")
    title = f"{recipe.id} on {machine.cores} cores of {machine.cpu_model}, one decodes"
    plot(measured, options.results / "curve.png", title=title)
    show_rows(measured, interrupted=False)
    for point in data["capacity_curve"]:
        print("  - {" + ", ".join(f"{name}: {value:g}" for name, value in point.items()) + "}")
    print(f"engine resident: {memory / 2**20:.0f} MiB; written: {options.results}")


if __name__ == "__main__":
    main()
