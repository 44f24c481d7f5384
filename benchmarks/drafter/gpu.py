"""The shipped drafter in SGLang and vLLM on a GPU, started by Outrider's own classes, with the drafter and without it.

    python -m benchmarks.drafter.gpu sglang --target DIRECTORY --data DIRECTORY [--python INTERPRETER]
    python -m benchmarks.drafter.gpu vllm --target DIRECTORY --data DIRECTORY [--python INTERPRETER]

Each run starts one engine twice, asks it the held-out prompts of each slice, one request in flight and then many, and
ends it. Then the reference drafts on the very answers that the engine gave. What an engine cannot do is written down,
and the rest goes on. Writes ``results/gpu.json``, one engine's part at a time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from benchmarks.drafter import comparison
from benchmarks.drafter.agreement import BOUNDS, rounded
from benchmarks.drafter.answers import Answer
from benchmarks.drafter.served import OPTIONS, Run, serve
from rich.progress import Progress

from outrider._version import __version__
from outrider.drafting import checkpoint, dataset
from outrider.drafting.evaluation import Record, measure
from outrider.drafting.target import Target
from outrider.models.sources import SHIPPED_DRAFTERS

RESULT = Path(__file__).with_name("results") / "gpu.json"
SHIPPED = SHIPPED_DRAFTERS / "smollm2-135m-instruct-dflash"
SLICES = ("chat", "code", "json")


def main() -> None:
    """Measure one engine and write its part of the result."""
    options = _options()
    rows = held_out(options.data, options.prompts)
    prompts = {name: [row.prompt for row in chosen] for name, chosen in rows.items()}
    options.keep.mkdir(parents=True, exist_ok=True)
    runs = {}
    with Progress() as progress:
        for name, drafter in (("without", None), ("with", options.drafter)):
            runs[name] = serve(options, prompts, drafter, options.keep / f"{options.engine}-{name}", progress)
            print(json.dumps({options.engine: {name: runs[name].emit()}}, indent=1), flush=True)
    (options.keep / f"{options.engine}-answers.json").write_text(json.dumps(_raw(rows, runs)))
    part = _compared(options, prompts, runs)
    whole = merged(options.result, options.engine, part, about(options))
    options.result.parent.mkdir(parents=True, exist_ok=True)
    options.result.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps({"rows": part["rows"], "ratios": whole["ratios"]}, indent=1), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("engine", choices=sorted(OPTIONS))
    parser.add_argument("--target", type=Path, required=True, help="the model in Hugging Face's layout, bf16")
    parser.add_argument("--data", type=Path, required=True, help="what `drafter data` wrote; held-out rows are used")
    parser.add_argument("--drafter", type=Path, default=SHIPPED)
    parser.add_argument("--python", type=Path, help="an interpreter that has the engine; else an environment is built")
    parser.add_argument("--packages", nargs="*", help="what is installed where no interpreter is named")
    parser.add_argument("--variable", action="append", default=[], metavar="NAME=VALUE", help="for the engine")
    parser.add_argument("--options", type=json.loads, default={}, help="JSON; over the engine's usual ones here")
    parser.add_argument("--prompts", type=int, default=80, help="of each slice")
    parser.add_argument("--limit", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--width", type=int, default=32, help="requests at once where speed under load is measured")
    parser.add_argument("--rounds", type=int, default=3, help="times that each prompt is asked under load")
    parser.add_argument("--patience", type=float, default=240.0, help="seconds that a start may take")
    parser.add_argument("--seconds", type=float, default=3600.0, help="after which no more is asked")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="of the reference")
    parser.add_argument("--result", type=Path, default=RESULT)
    parser.add_argument("--keep", type=Path, default=Path("gpu-run"), help="for logs, metrics pages and raw answers")
    options = parser.parse_args()
    options.until = time.monotonic() + options.seconds
    return options


def held_out(data: Path, most: int) -> dict[str, list[dataset.Row]]:
    """Up to ``most`` rows of each slice that no training saw."""
    rows = dataset.read(data)
    return {name: rows.split("held_out", name)[:most] for name in SLICES}


def _compared(
    options: argparse.Namespace, prompts: dict[str, list[tuple[int, ...]]], runs: dict[str, Run]
) -> dict[str, Any]:
    """One engine's rows, ratios and findings."""
    block = checkpoint.load(options.drafter).config.block_size
    table = [speeds(options.engine, name, runs["without"], runs["with"]) for name in prompts]
    findings: dict[str, Any] = {name: run.emit() for name, run in runs.items()}
    try:
        for row in table:
            row |= _by_target(options, prompts[row["slice"]], row["slice"], runs)
    except Exception as error:  # what was measured before is worth writing
        findings["reference"] = f"{type(error).__name__}: {error}"
    findings["tau_page"] = runs["with"].tau_page
    findings["tau_answers"] = rounded(every_step(runs["with"].answers))
    return {"rows": table, "findings": findings | {"block": block}, "ratios": ratios(options.engine, table, runs)}


def speeds(engine: str, name: str, without: Run, with_it: Run) -> dict[str, Any]:
    """One slice: times with and without the drafter; None where they are not known."""
    times = [comparison.milliseconds(run.answers.get(name, ())) for run in (without, with_it)]
    rates = [run.rate(name) for run in (without, with_it)]
    return {
        "engine": engine,
        "slice": name,
        "prompts": len(with_it.answers.get(name, ())),
        "decode_ms_without": rounded(times[0]),
        "decode_ms_with": rounded(times[1]),
        "decode_ms_over_none": rounded(times[1] / times[0]),
        "output_tps_at_once_without": rounded(rates[0], 1),
        "output_tps_at_once_with": rounded(rates[1], 1),
        "output_tps_at_once_over_none": rounded(rates[1] / rates[0]),
    }


def _by_target(
    options: argparse.Namespace, prompts: Sequence[tuple[int, ...]], name: str, runs: dict[str, Run]
) -> dict[str, Any]:
    """One slice: the reference's τ on the engine's answers, in bf16; and whether drafting lost anything, in fp32."""
    drafted, plain = runs["with"].answers.get(name, []), runs["without"].answers.get(name, [])
    if not drafted:
        return {}
    device, drafter = options.device, checkpoint.load(options.drafter)
    target = Target.load(options.target, drafter.config.target_layer_ids, dtype=torch.bfloat16, device=device)
    records = [Record(asked, said.tokens, name) for asked, said in zip(prompts, drafted, strict=True)]
    measured = measure(drafter.to(device, torch.bfloat16), target, records)
    found = comparison.emit(comparison.agreement(drafted, measured), BOUNDS[options.engine])
    if not plain:
        return found
    exact = Target.load(options.target, dtype=torch.float32, device=device)
    return found | comparison.losslessness(exact, prompts, plain, drafted)


def every_step(answers: dict[str, list[Answer]]) -> float:
    """Tokens a step over all answers, cut steps included, as engines count; NaN without a step."""
    chunks = [chunk for said in answers.values() for answer in said for chunk in answer.chunks]
    steps = sum(taken for _, taken in chunks)
    return sum(brought for brought, _ in chunks) / steps if steps else math.nan


def ratios(engine: str, table: Sequence[dict[str, Any]], runs: dict[str, Run]) -> dict[str, float]:
    """By name; what is not known is left out."""
    found: dict[str, float | None] = {}
    for row in table:
        found[f"decode_ms_{row['slice']}_{engine}_over_none"] = row["decode_ms_over_none"]
        if row.get("tau_engine") and row.get("tau_reference"):
            quotient = row["tau_engine"] / row["tau_reference"]
            found[f"tau_{engine}_over_reference_{row['slice']}"] = rounded(quotient)
    width = runs["with"].width
    found[f"output_tps_c{width}_{engine}_over_none"] = rounded(runs["with"].rate() / runs["without"].rate())
    return {name: value for name, value in found.items() if value is not None}


def merged(result: Path, engine: str, part: dict[str, Any], around: dict[str, Any]) -> dict[str, Any]:
    """The result file's content with one engine's part in the place of the one that was there."""
    before = json.loads(result.read_text()) if result.exists() else {}
    findings = part["findings"]
    version = next((run["version"] for run in (findings["with"], findings["without"]) if run["version"]), None)
    return {
        **around,
        "versions": {**before.get("versions", {}), **around["versions"], engine: version},
        "rows": [row for row in before.get("rows", []) if row["engine"] != engine] + part["rows"],
        "ratios": {k: v for k, v in before.get("ratios", {}).items() if f"_{engine}_" not in k} | part["ratios"],
        "findings": {**before.get("findings", {}), engine: findings},
    }


def about(options: argparse.Namespace) -> dict[str, Any]:
    """The machine, the versions and how much was asked."""
    on_gpu = options.device != "cpu"
    return {
        "machine": {"gpu": torch.cuda.get_device_name() if on_gpu else None, "cores": os.cpu_count()},
        "versions": {"outrider": __version__, "python": platform.python_version(), "torch": torch.__version__},
        "rounds": options.rounds,
        "prompts": options.prompts,
        "limit": options.limit,
        "at_once": options.width,
    }


def _raw(rows: dict[str, list[dataset.Row]], runs: dict[str, Run]) -> dict[str, Any]:
    """Every answer, so that what was concluded can be looked at again."""
    said = {name: run.raw() for name, run in runs.items()}
    return {"ids": {name: [row.id for row in chosen] for name, chosen in rows.items()}, "answers": said}


if __name__ == "__main__":
    main()
