"""What a drafter is worth: its acceptance by the reference and by two engines on the CPU, and the time a token takes.

    python -m benchmarks.drafter.measure --target DIRECTORY --data DIRECTORY [--second DRAFTER] [--engine NAME]

Engines stand side by side, one without a drafter and one with it, and answer each prompt in turns, greedily, one
request in flight. Verification steps are counted, not guessed; those whose block reaches past the answer's end are left
out. The reference then drafts on the very answers that the engine gave, so both are paired by prompt. The reference
alone, on the answers that stand in the data, is measured with vLLM. Writes ``results/latest.json``.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import torch
from benchmarks.drafter import comparison
from benchmarks.drafter.agreement import BOUNDS, rounded
from benchmarks.drafter.answers import Answer, Client
from benchmarks.drafter.engines import RECIPES, gguf, serving, version
from rich.progress import track

from outrider._version import __version__
from outrider.drafting import checkpoint, dataset
from outrider.drafting.evaluation import Record, measure
from outrider.drafting.target import Target
from outrider.models.sources import SHIPPED_DRAFTERS

RESULTS = Path(__file__).with_name("results")
SHIPPED = SHIPPED_DRAFTERS / "smollm2-135m-instruct-dflash"
ASKED = ("json", "chat")
"""Slices that are asked in engines: where drafting should pay most, and where it must not cost."""
NAMES = {"chat": "tau_chat", "code": "tau_code", "json": "tau_json_heldout_templates"}
_PLAIN = "none"
_PLACES = {"vllm": "vllm_cpu", "llamacpp": "llamacpp"}
"""How ratios of time name an engine."""
Said = Mapping[str, Answer]
"""One prompt's answers, by drafter."""


def main() -> None:
    """Measure and write the result."""
    options = _options()
    torch.set_num_threads(1)
    rows = _held_out(options.data, options.prompts)
    found = _earlier()
    for name in options.engine or RECIPES:
        table = _engine(name, options, [row for row in rows if row.slice in ASKED])
        found["rows"] = [row for row in found["rows"] if row["engine"] != name] + table
        if name == "vllm":
            found["ratios"] |= _by_reference(options, rows)
        found["ratios"] |= ratios(found["rows"])
        found["versions"][name] = version(name)
        _write(found, options)  # after each, since the next takes minutes
    print(json.dumps(found["ratios"], indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", type=Path, required=True, help="the model in Hugging Face's layout, bf16")
    parser.add_argument("--data", type=Path, required=True, help="what `drafter data` wrote; held-out rows are used")
    parser.add_argument("--drafter", type=Path, default=SHIPPED)
    parser.add_argument("--second", type=Path, help="a DFlash 2 trained at equal data and steps")
    parser.add_argument("--engine", action="append", choices=RECIPES, help="these alone; the others' rows stay")
    parser.add_argument("--prompts", type=int, default=200, help="of each slice")
    parser.add_argument("--limit", type=int, default=128, help="tokens of an answer")
    return parser.parse_args()


def _held_out(data: Path, most: int) -> list[dataset.Row]:
    """Up to ``most`` rows of each slice, from templates and conversations that no training saw."""
    rows = dataset.read(data).split("held_out")
    return [row for name in sorted({row.slice for row in rows}) for row in [r for r in rows if r.slice == name][:most]]


def _engine(name: str, options: argparse.Namespace, rows: Sequence[dataset.Row]) -> list[dict[str, Any]]:
    """The table of one engine: a row for each slice and drafter."""
    model = options.target if name == "vllm" else gguf()
    drafters = {"dflash": options.drafter}
    if name == "llamacpp" and options.second is not None:
        drafters["dflash2"] = options.second  # vLLM 0.24.0 and vllm-cpu 0.32.0 do not serve one
    with tempfile.TemporaryDirectory(prefix="outrider-drafter-") as directory, ExitStack() as stack:
        launches = {
            label: stack.enter_context(serving(name, model, drafter, Path(directory) / label))
            for label, drafter in {_PLAIN: None, **drafters}.items()
        }
        clients = {label: Client(name, launch, options.limit) for label, launch in launches.items()}
        said: list[Said] = [
            {label: client.ask(row.prompt) for label, client in clients.items()}
            for row in track(rows, f"asking {name}")
        ]
    # What llama.cpp runs is quantised; nearest to it is its own file, dequantised, in fp32.
    target = Target.load(model, dtype=torch.bfloat16 if name == "vllm" else torch.float32)
    asked = list(zip(rows, said, strict=True))
    return [
        {"engine": name, "slice": part, "drafter": label, "limit": options.limit}
        | _paired(name, label, target, drafter, [one for one in asked if one[0].slice == part])
        for label, drafter in drafters.items()
        for part in ASKED
        if any(row.slice == part for row in rows)
    ]


def _paired(
    name: str, label: str, target: Target, source: Path, asked: Sequence[tuple[dataset.Row, Said]]
) -> dict[str, Any]:
    """One slice: the engine's τ and the reference's on the same answers, and the time a token takes."""
    drafter = checkpoint.load(source)
    target.tap(drafter.config.target_layer_ids)
    whole = [(row, said) for row, said in asked if all(len(one.tokens) > 1 for one in said.values())]
    records = [Record(row.prompt, said[label].tokens, row.slice) for row, said in whole]
    found = comparison.agreement([said[label] for _, said in whole], measure(drafter, target, records))
    with_it, without = (comparison.milliseconds([said[one] for _, said in whole]) for one in (label, _PLAIN))
    return {
        "prompts": found.prompts,
        "tau_engine": rounded(found.engine, 3),
        "tau_reference": rounded(found.reference, 3),
        "tau_difference": rounded(found.difference),
        "tau_difference_standard_error": rounded(found.error),
        "agrees": found.agrees(BOUNDS[name]),
        "decode_ms_with": rounded(with_it, 2),
        "decode_ms_without": rounded(without, 2),
        "decode_ms_over_none": rounded(with_it / without),
    }


def ratios(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Named by what is divided by what, from the rows of the DFlash; a DFlash 2 has rows, and no names."""
    found: dict[str, float] = {}
    for row in rows:
        if row["drafter"] == "dflash" and row["tau_reference"]:
            name, engine = row["slice"], row["engine"]
            found[f"tau_{engine}_over_reference_{name}"] = row["tau_engine"] / row["tau_reference"]
            found[f"decode_ms_{name}_{_PLACES[engine]}_over_none"] = row["decode_ms_over_none"]
    return {name: round(value, 4) for name, value in found.items()}


def _by_reference(options: argparse.Namespace, rows: Sequence[dataset.Row]) -> dict[str, float]:
    """τ of each slice on the answers that stand in the data; of a DFlash 2 against a DFlash on the same; by context."""
    records = [Record(row.prompt, tuple(row.tokens[slice(*row.answers[-1])]), row.slice) for row in rows]
    target, drafter = Target.load(options.target, dtype=torch.bfloat16), checkpoint.load(options.drafter)
    target.tap(drafter.config.target_layer_ids)
    found = measure(drafter, target, records)
    named = {label: found.tau(name) for name, label in NAMES.items() if not math.isnan(found.tau(name))}
    if options.second is not None:
        second = checkpoint.load(options.second)
        target.tap(second.config.target_layer_ids)
        named["tau_dflash2_over_dflash"] = measure(second, target, records).tau() / found.tau()
    card = options.drafter / "drafter.json"
    tau = json.loads(card.read_text()).get("tau", {}) if card.exists() else {}
    if {"context-256", "context-4096"} <= tau.keys():
        named["tau_ctx4096_over_ctx256"] = tau["context-4096"] / tau["context-256"]
    return {name: round(value, 4) for name, value in named.items()}


def _earlier() -> dict[str, Any]:
    path = RESULTS / "latest.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    return {part: kept.get(part, usual) for part, usual in (("versions", {}), ("rows", []), ("ratios", {}))}


def _write(found: Mapping[str, Any], options: argparse.Namespace) -> None:
    machine = {
        "cpu": platform.processor() or platform.machine(),
        "cores": psutil.cpu_count(),
        "load_average": round(psutil.getloadavg()[0], 2),
    }
    versions = {**found["versions"], "outrider": __version__, "torch": torch.__version__}
    data = {
        "machine": machine,
        "versions": versions,
        "rounds": options.prompts,
        "rows": found["rows"],
        "ratios": found["ratios"],
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
