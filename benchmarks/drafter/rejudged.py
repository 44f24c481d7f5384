"""Answers that an engine gave on a GPU, held against the reference once more: no engine runs, and no GPU is needed.

    python -m benchmarks.drafter.rejudged sglang --target DIRECTORY --data DIRECTORY --answers FILE

``FILE`` is the ``ENGINE-answers.json`` that ``benchmarks.drafter.gpu`` keeps, ``--data`` the data set that it asked
from. Replaces that engine's acceptance in ``results/gpu.json``; its times stay.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.drafter import comparison, gpu
from benchmarks.drafter.agreement import BOUNDS, rounded
from benchmarks.drafter.answers import Answer, one_each
from benchmarks.drafter.served import OPTIONS
from rich.progress import track

from outrider.drafting import checkpoint, dataset
from outrider.drafting.evaluation import Record, measure
from outrider.drafting.model import DFlash
from outrider.drafting.target import Target

Json = Mapping[str, Any]


def kept(document: Json) -> dict[str, list[Answer]]:
    """The answers with the drafter, by slice."""
    return {
        name: [
            Answer(tuple(one["tokens"]), one_each([(b, s) for b, s in one["chunks"]]), one["seconds"]) for one in said
        ]
        for name, said in document["answers"]["with"].items()
    }


def acceptance(
    engine: str, target: Target, drafter: DFlash, rows: Sequence[dataset.Row], said: Sequence[Answer]
) -> dict[str, Any]:
    """One slice: τ of the engine and of the reference."""
    records = [Record(row.prompt, one.tokens, row.slice) for row, one in zip(rows, said, strict=True)]
    return comparison.emit(comparison.agreement(said, measure(drafter, target, records)), BOUNDS[engine])


def main() -> None:
    """Judge one engine's answers, and write its acceptance."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", choices=sorted(OPTIONS))
    parser.add_argument("--target", type=Path, required=True, help="the model in Hugging Face's layout, bf16")
    parser.add_argument("--data", type=Path, required=True, help="what `drafter data` wrote")
    parser.add_argument("--answers", type=Path, required=True, help="what the engine said")
    parser.add_argument("--drafter", type=Path, default=gpu.SHIPPED)
    parser.add_argument("--result", type=Path, default=gpu.RESULT)
    options = parser.parse_args()
    drafter = checkpoint.load(options.drafter, dtype=torch.bfloat16)
    target = Target.load(options.target, drafter.config.target_layer_ids, dtype=torch.bfloat16)
    document, whole = json.loads(options.answers.read_text()), json.loads(options.result.read_text())
    by_id, said = {row.id: row for row in dataset.read(options.data).rows}, kept(document)
    for row in track([one for one in whole["rows"] if one["engine"] == options.engine], "judging"):
        name = row["slice"]
        row |= acceptance(options.engine, target, drafter, [by_id[one] for one in document["ids"][name]], said[name])
        whole["ratios"][f"tau_{options.engine}_over_reference_{name}"] = rounded(
            row["tau_engine"] / row["tau_reference"]
        )
    whole["findings"][options.engine]["tau_answers"] = rounded(gpu.every_step(said))
    options.result.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps({name: value for name, value in whole["ratios"].items() if options.engine in name}, indent=1))


if __name__ == "__main__":
    main()
