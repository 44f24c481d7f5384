"""The capacity curve of a recipe, measured on this machine: concurrency → TTFT, ITL, tokens a second.

    python benchmarks/capacity/measure.py smollm2-135m-instruct/llamacpp-cpu --concurrency 1 2 4

Starts the recipe's engine alone (no gateway before it), sends a closed loop of streamed requests at each concurrency
and writes ``results/latest.json``, whose ``rows`` make a recipe's ``capacity_curve``. Prompts begin differently, so
that no request finds another's prefix in the cache; every answer has the same length, so that load stays even.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import platform
import secrets
import socket
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from outrider._version import __version__
from outrider.app.server import Launch
from outrider.engines.llamacpp import LlamaCpp
from outrider.models.weights import Weights
from outrider.recipes.flags import is_argument
from outrider.recipes.library import load_catalog
from outrider.recipes.schema import Recipe

RESULTS = Path(__file__).with_name("results") / "latest.json"
WORDS = ("river", "stone", "market", "engine", "letter", "garden", "winter", "copper", "signal", "harbour", "window")


@dataclass(frozen=True)
class Request:
    """One finished request: seconds and tokens. ITL as decided: (last − first content event) ÷ (tokens − 1)."""

    ttft: float
    itl: float
    prompt_tokens: int
    output_tokens: int


def main() -> None:
    """Measure and write the result."""
    options = _options()
    recipe = load_catalog().get(options.recipe)
    with tempfile.TemporaryDirectory(prefix="outrider-capacity-") as directory:
        engine, launch = _started(recipe, Path(directory))
        try:
            rows = [asyncio.run(_load(launch, options, c)) for c in options.concurrency]
            memory = _resident()
        except httpx.HTTPError as error:
            log = launch.log.read_text()[-2000:]
            raise SystemExit(f"{error}; engine's exit code: {engine.poll()}; its log ends:\n{log}") from error
        finally:
            engine.stop(5.0)
    _write(recipe, options, rows, memory)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("recipe", help="a llamacpp recipe's id")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--requests", type=int, default=8, help="requests per unit of concurrency")
    parser.add_argument("--words", type=int, default=220, help="length of a prompt, in words")
    parser.add_argument("--output-tokens", type=int, default=128)
    return parser.parse_args()


def _started(recipe: Recipe, scratch: Path) -> tuple[LlamaCpp, Launch]:
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
    while not engine.probe():
        if (code := engine.poll()) is not None:
            raise SystemExit(f"the engine ended with {code}:\n{launch.log.read_text()[-2000:]}")
        time.sleep(0.1)
    engine.warm_up(lambda progress: print(progress.detail))
    return engine, launch


async def _load(launch: Launch, options: argparse.Namespace, concurrency: int) -> dict[str, Any]:
    numbers = itertools.count()
    total = options.requests * concurrency
    done: list[Request] = []
    headers = {"Authorization": f"Bearer {launch.key}"}
    base = f"http://{launch.host}:{launch.port}"

    # A connection a request: the engine may close an idle one just as the next request takes it.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=600, limits=limits) as client:

        async def worker() -> None:
            while (number := next(numbers)) < total:
                done.append(await _request(client, launch.name, options, concurrency * 10_000 + number))

        began = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(concurrency)))
        seconds = time.perf_counter() - began
    output = sum(request.output_tokens for request in done)
    prompt = sum(request.prompt_tokens for request in done)
    row = {
        "concurrency": concurrency,
        "ttft_p50": _quantile([r.ttft for r in done], 0.5),
        "ttft_p95": _quantile([r.ttft for r in done], 0.95),
        "itl_p50": _quantile([r.itl for r in done], 0.5),
        "itl_p95": _quantile([r.itl for r in done], 0.95),
        "output_tps": round(output / seconds, 1),
        "total_tps": round((output + prompt) / seconds, 1),
        "requests": len(done),
        "prompt_tokens_mean": round(prompt / len(done)),
        "load_average": round(os.getloadavg()[0], 2),
    }
    print(row)
    return row


async def _request(client: httpx.AsyncClient, model: str, options: argparse.Namespace, number: int) -> Request:
    words = (WORDS[(number * 7 + i * (number % 5 + 1)) % len(WORDS)] for i in range(options.words))
    body = {
        "model": model,
        "messages": [{"role": "user", "content": f"{number}: tell a story with these words: {' '.join(words)}"}],
        "max_tokens": options.output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    sent = time.perf_counter()
    first = last = 0.0
    usage: dict[str, int] = {}
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            if any((choice.get("delta") or {}).get("content") for choice in event.get("choices") or []):
                last = time.perf_counter()
                first = first or last
    tokens = usage["completion_tokens"]
    return Request(first - sent, (last - first) / max(1, tokens - 1), usage["prompt_tokens"], tokens)


def _quantile(values: list[float], q: float) -> float:
    if len(values) == 1:
        return round(values[0], 4)
    return round(statistics.quantiles(values, n=100, method="inclusive")[round(q * 100) - 1], 4)


def _resident() -> int:
    """Resident size of the engine, this process's one child, in bytes."""
    children = psutil.Process().children(recursive=True)
    return max((child.memory_info().rss for child in children), default=0)


def _write(recipe: Recipe, options: argparse.Namespace, rows: list[dict[str, Any]], memory: int) -> None:
    cpu = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), "unknown")  # fmt: skip
    result = {
        "machine": {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "memory_bytes": psutil.virtual_memory().total},
        "versions": {"outrider": __version__, "python": platform.python_version(),
                     recipe.engine.name: recipe.engine.version},
        "recipe": recipe.id,
        "flags": {name: flag.value for name, flag in recipe.flags.items()},
        "workload": {"words": options.words, "output_tokens": options.output_tokens, "loop": "closed"},
        "rounds": options.requests,
        "engine_resident_bytes": memory,
        "rows": rows,
        "ratios": {
            "output_tps_last_over_first": round(rows[-1]["output_tps"] / rows[0]["output_tps"], 2),
        },
    }  # fmt: skip
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(f"engine resident: {memory / 2**20:.0f} MiB; written: {RESULTS}")


if __name__ == "__main__":
    main()
