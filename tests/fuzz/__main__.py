"""``python -m tests.fuzz``: hostile requests, one after another, until the time is over or one is taken badly.

``FUZZ_SECONDS`` (default 300) and ``FUZZ_SEED`` (default: from the clock) may be set. A finding is written to
``tests/fuzz/corpus/``, where ``make test`` meets it again, and the exit code is 1.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from random import Random

import uvloop
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from tests.fuzz import mutations
from tests.fuzz.mutations import Case
from tests.fuzz.oracle import Finding, target

_CORPUS = Path(__file__).parent / "corpus"
_CASES_A_GATEWAY = 20_000


async def fuzz(seed: int, seconds: float) -> int:
    """Judge cases from ``seed`` on for so many seconds; the exit code."""
    end = time.monotonic() + seconds
    columns = (*Progress.get_default_columns()[:2], TextColumn("{task.fields[cases]} cases"), TimeElapsedColumn())
    with Progress(*columns) as progress:
        bar = progress.add_task(f"seed {seed}", total=seconds, cases=0)
        number = seed
        while time.monotonic() < end:
            async with target() as gateway:
                while time.monotonic() < end:
                    case = mutations.case(Random(number))
                    try:
                        await gateway.judge(case)
                    except Finding as finding:
                        progress.stop()
                        _keep(number, case, finding)
                        return 1
                    number += 1
                    progress.update(bar, completed=seconds - (end - time.monotonic()), cases=number - seed)
                    if (number - seed) % _CASES_A_GATEWAY == 0:
                        break
    print(f"{number - seed} cases from {seed} on: nothing found")
    return 0


def _keep(number: int, case: Case, finding: Finding) -> None:
    path = _CORPUS / f"seed-{number}.http"
    path.write_bytes(case.data)
    print(f"case {number}: {finding}\nsent: {case.segments}\nkept: {path}", file=sys.stderr)


if __name__ == "__main__":
    first = int(os.environ.get("FUZZ_SEED") or time.time_ns() // 1_000_000)
    sys.exit(uvloop.run(fuzz(first, float(os.environ.get("FUZZ_SECONDS") or 300))))
