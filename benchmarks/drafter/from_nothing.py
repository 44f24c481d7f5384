"""What one run of ``scripts/drafter`` from nothing came to: seconds of each stage, its data, and τ of what it trained.

    scripts/drafter --minutes 2.5 --work WORK | tee WORK/log
    python -m benchmarks.drafter.from_nothing WORK --log WORK/log --machine "NVIDIA H200"

Writes ``results/from_nothing.json``. ``WORK`` may hold no more than the JSON files of that run.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.drafting.card import read_card
from outrider.models.safetensors import read_object

RESULT = Path(__file__).with_name("results") / "from_nothing.json"
_ENDS = {"target": "target dequantised", "data": "data: ", "training": "saved ", "evaluation": "dflash\n"}
"""What the log says where each stage ends, in order."""


def stages(log: str) -> dict[str, float]:
    """Seconds that each stage took, by the times at which the log says that it ended.

    Raises:
        ValueError: a stage did not end.
    """
    began, taken = 0.0, {}
    for stage, words in _ENDS.items():
        found = re.search(rf"^ *(\d+\.\d) s  {re.escape(words)}", log, re.MULTILINE)
        if found is None:
            raise ValueError(f"the log does not say {words.strip()!r}: {stage} did not end")
        taken[stage], began = round(float(found[1]) - began, 1), float(found[1])
    return taken


def figures(work: Path, log: str, machine: str) -> dict[str, Any]:
    """All that is kept of a run."""
    manifest, card = read_object(work / "data" / "manifest.json"), read_card(work / "dflash")
    evaluation: Mapping[str, Any] = read_object(work / "evaluation.json")["dflash"]
    return {
        "machine": machine,
        "seconds": stages(log),
        "steps": card.hyperparameters["steps"],
        "examples": card.data.examples,
        "answer_tokens": manifest["answer_tokens"],
        "slices": [
            {name: one[name] for name in ("slice", "records", "blocks", "tau")}
            for one in (*evaluation["slices"], *evaluation["after_context"])
            if one["slice"] != "all"
        ],
    }


def main() -> None:
    """Read the work directory and the log, and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--log", type=Path, required=True, help="what the run printed")
    parser.add_argument("--machine", required=True, help="where it ran")
    options = parser.parse_args()
    found = figures(options.work, options.log.read_text(encoding="utf-8"), options.machine)
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
