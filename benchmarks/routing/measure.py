"""What the choice of a replica costs, in microseconds of processor time.

    make bench-routing

Each row is one step of a request's way: reading its prompt (hashing the leading blocks), and the whole choice of a
replica with its bookkeeping (candidates, policy, counters up, prefixes remembered, counters down), at 1, 8 and 64
replicas. Median of rounds; writes ``results/latest.json`` beside this file.
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from outrider._version import __version__
from outrider.gateway import demand, prompt, table
from outrider.gateway.admission import Admission
from outrider.gateway.demand import Demand

ROUNDS = 7
LOOPS = 2000


class _Timer:
    def cancel(self) -> None:
        """Nothing ever waits here."""


def fleet(count: int) -> dict[str, Any]:
    """A table of one endpoint with so many replicas, all of one revision."""
    return {
        "epoch": "e",
        "version": 1,
        "require_keys": False,
        "endpoints": [
            {
                "name": "tiny",
                "task": "generate",
                "created": 0,
                "unauthenticated": True,
                "state": "ready",
                "reason": None,
                "revisions": [{"number": 1, "digest": "a" * 64, "weight": 100}],
                "max_concurrency": 64,
            }
        ],
        "replicas": [
            {"id": f"r{index}", "endpoint": "tiny", "revision": 1, "url": "http://127.0.0.1:1"}
            for index in range(count)
        ],
        "keys": [],
    }


def microseconds(call: Callable[[], object]) -> list[float]:
    """Time of one call, once a round."""
    call()
    return [
        seconds / LOOPS * 1e6 for seconds in timeit.repeat(call, timer=time.process_time, number=LOOPS, repeat=ROUNDS)
    ]


def row(name: str, times: list[float]) -> dict[str, Any]:
    """One line of the result."""
    return {
        "name": name,
        "median_us": round(statistics.median(times), 2),
        "spread_us": round(max(times) - min(times), 2),
    }


def picks(count: int) -> list[dict[str, Any]]:
    """The choice among so many replicas under some load, for each kind of request."""
    routing = table.parse(fleet(count))
    admission = Admission(rng=Random(1), later=lambda *_: _Timer(), wake=lambda _: None)
    admission.swap(routing)
    endpoint = routing.endpoints["tiny"]
    for index in range(4 * count):
        admission.take(endpoint, (), Demand(500 + index, 256))
    conversation = prompt.chain("x" * 16_000, "tiny")
    kinds = {
        "least tokens": Demand(500, 256),
        "affinity key": Demand(500, 256, "session-1"),
        "prefix of 16,000 characters": Demand(500, 256, None, conversation),
        "unknown prefix of 16,000 characters": Demand(500, 256, None, prompt.chain("y" * 16_000, "tiny")),
    }

    def choose(asked: Demand) -> None:
        replica = admission.take(endpoint, (), asked)
        assert replica is not None
        admission.release(replica, asked)

    return [
        row(f"pick, {count} replicas, {name}", microseconds(lambda d=asked: choose(d))) for name, asked in kinds.items()
    ]


def reads() -> list[dict[str, Any]]:
    """Reading the prompt of a parsed body."""
    rows = []
    for size in (1_800, 64_000, 1_000_000):
        body = {"model": "tiny", "messages": [{"role": "user", "content": "lorem ipsum " * (size // 12)}]}
        rows.append(
            row(f"read a prompt of {size:,} characters", microseconds(lambda b=body: demand.of(prompt.read(b))))
        )
    return rows


def main() -> int:
    """Measure, print and write."""
    rows = [*reads(), *(line for count in (1, 8, 64) for line in picks(count))]
    for line in rows:
        print(f"{line['name']:<60} {line['median_us']:>8.2f} µs  (spread {line['spread_us']:.2f})")
    result = {
        "machine": f"{platform.machine()}, {platform.system()}",
        "versions": {"outrider": __version__, "python": platform.python_version()},
        "rounds": ROUNDS,
        "rows": rows,
        "ratios": {},
    }
    out = Path(__file__).parent / "results" / "latest.json"
    out.parent.mkdir(exist_ok=True)
    out.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
