"""What a drafter is worth: its acceptance by the reference and by vLLM on the CPU, and the time a token takes with it.

    python benchmarks/drafter/measure.py --target DIRECTORY --data DIRECTORY [--second DRAFTER] [--prompts 200]

Two vLLMs stand side by side, one without a drafter and one with it, and answer each prompt in turns, greedily, one
request in flight. One chunk of a stream is one verification step, so steps are counted, not guessed: the chunk of the
prompt's own pass and the last one, which the answer's end may cut short, are left out. The reference then drafts on the
very answers that vLLM gave, so engine and reference are paired by prompt. Writes ``results/latest.json``.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import socket
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import torch
from rich.progress import track

from outrider._version import __version__
from outrider.app.environment import Environment
from outrider.app.server import Launch
from outrider.drafting import checkpoint, dataset
from outrider.drafting.evaluation import Record, measure
from outrider.drafting.target import Target
from outrider.engines.speculation import Speculation
from outrider.engines.vllm import VLLM
from outrider.models.sources import SHIPPED_DRAFTERS
from outrider.models.weights import Weights
from outrider.recipes.library import load_catalog

RESULTS = Path(__file__).with_name("results")
RECIPE = "smollm2-135m-instruct/vllm-cpu"
SHIPPED = SHIPPED_DRAFTERS / "smollm2-135m-instruct-dflash"
TIMED = ("json", "chat")
"""Slices that are asked in both engines: where drafting should pay most, and where it must not cost."""
NAMES = {"chat": "tau_chat", "code": "tau_code", "json": "tau_json_heldout_templates"}
_PATIENCE = 600.0
"""Seconds that an engine may take to start on a busy machine."""


@dataclass(frozen=True)
class Answer:
    """What an engine said to one prompt.

    Attributes:
        tokens: of the answer.
        steps: tokens that each verification step committed, without the first chunk and the last.
        seconds: from the first chunk to the last.
    """

    tokens: tuple[int, ...]
    steps: tuple[int, ...]
    seconds: float

    @property
    def ms(self) -> float:
        """Time a token after the first, milliseconds."""
        return 1000 * self.seconds / max(1, len(self.tokens) - 1)


def main() -> None:
    """Measure and write the result."""
    options = _options()
    torch.set_num_threads(1)
    rows = _held_out(options.data, options.prompts)
    with tempfile.TemporaryDirectory(prefix="outrider-drafter-") as directory, ExitStack() as stack:
        plain = stack.enter_context(_engine(options, Path(directory) / "plain", None))
        drafting = stack.enter_context(_engine(options, Path(directory) / "drafting", options.drafter))
        timed = [row for row in rows if row.slice in TIMED]
        asked = [
            (row, _ask(plain, _prompt(row), options.limit), _ask(drafting, _prompt(row), options.limit))
            for row in track(timed, "asking")
        ]
    _write(options, rows, asked)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", type=Path, required=True, help="the model in Hugging Face's layout, bf16")
    parser.add_argument("--data", type=Path, required=True, help="what `drafter data` wrote; held-out rows are used")
    parser.add_argument("--drafter", type=Path, default=SHIPPED)
    parser.add_argument("--second", type=Path, help="a DFlash 2 trained at equal data and steps")
    parser.add_argument("--prompts", type=int, default=200, help="of each slice")
    parser.add_argument("--limit", type=int, default=128, help="tokens of an answer")
    return parser.parse_args()


def _held_out(data: Path, most: int) -> list[dataset.Row]:
    """Up to ``most`` rows of each slice, from templates and conversations that no training saw."""
    rows = dataset.read(data).split("held_out")
    return [row for name in sorted({row.slice for row in rows}) for row in [r for r in rows if r.slice == name][:most]]


def _prompt(row: dataset.Row) -> tuple[int, ...]:
    return tuple(row.tokens[: row.answers[-1][0]])


@contextmanager
def _engine(options: argparse.Namespace, scratch: Path, drafter: Path | None) -> Iterator[Launch]:
    """A vLLM as the recipe has it, ready; with a drafter, or without."""
    recipe = load_catalog([]).get(RECIPE)
    wanted, flags = recipe.engine.environment, {name: flag.value for name, flag in recipe.flags.items()}
    scratch.mkdir(mode=0o700)
    speculation = None
    if drafter is not None:
        weights = Weights(f"path:{drafter.absolute()}")
        speculation = Speculation(
            "dflash", tokens=recipe.speculation.tokens, drafter=weights, quantization=recipe.speculation.quantization
        )
    engine = VLLM(
        Weights(f"path:{options.target.absolute()}"),
        Environment(packages=wanted.packages, patches=wanted.patches),
        speculation=speculation,
        **flags,  # type: ignore[arg-type]
    )
    engine.prepare(lambda progress: None)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    launch = Launch("drafter", "127.0.0.1", port, "or-bench", scratch / "engine.log", scratch)
    engine.start(launch)
    try:
        until = time.monotonic() + _PATIENCE
        while not engine.probe():
            if time.monotonic() > until:
                raise SystemExit(f"vLLM did not come up; see {launch.log}")
            time.sleep(0.5)
        _ask(launch, (1, 2, 3))
        yield launch
    finally:
        engine.stop(30.0)


def _ask(launch: Launch, prompt: Sequence[int], limit: int = 128) -> Answer:
    """One greedy answer, chunk by chunk."""
    body = {
        "model": launch.name,
        "prompt": list(prompt),
        "max_tokens": limit,
        "temperature": 0,
        "stream": True,
        "return_token_ids": True,
    }
    url, headers = f"http://{launch.host}:{launch.port}/v1/completions", {"Authorization": f"Bearer {launch.key}"}
    chunks: list[list[int]] = []
    first = last = 0.0
    with httpx.stream("POST", url, json=body, headers=headers, timeout=600) as response:
        response.raise_for_status()
        for line in response.iter_lines():
            if not line.startswith("data: {"):
                continue
            choices = json.loads(line.removeprefix("data: "))["choices"]
            if choices and (ids := choices[0].get("token_ids")):
                last = time.perf_counter()
                first = first or last
                chunks.append(ids)
    steps = tuple(len(chunk) for chunk in chunks[1:-1])
    return Answer(tuple(token for chunk in chunks for token in chunk), steps, last - first)


def _write(
    options: argparse.Namespace, rows: Sequence[dataset.Row], asked: Sequence[tuple[dataset.Row, Answer, Answer]]
) -> None:
    target, drafter = Target.load(options.target, dtype=torch.bfloat16), checkpoint.load(options.drafter)
    target.tap(drafter.config.target_layer_ids)
    ratios = _by_reference(options, target, rows)
    table = [_paired(name, target, drafter, [one for one in asked if one[0].slice == name]) for name in TIMED]
    for row in table:
        if row:
            ratios[f"decode_ms_{row['slice']}_vllm_cpu_over_none"] = row["decode_ms_over_none"]
    found = {
        "machine": {
            "cpu": platform.processor() or platform.machine(),
            "cores": psutil.cpu_count(),
            "load_average": round(psutil.getloadavg()[0], 2),
        },
        "versions": {
            "outrider": __version__,
            "torch": torch.__version__,
            "vllm": load_catalog([]).get(RECIPE).engine.version,
        },
        "rounds": options.prompts,
        "rows": [row for row in table if row],
        "ratios": {name: round(value, 4) for name, value in ratios.items()},
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(found["ratios"], indent=1))


def _by_reference(options: argparse.Namespace, target: Target, rows: Sequence[dataset.Row]) -> dict[str, float]:
    """τ of each slice on the answers that stand in the data; of a DFlash 2 against a DFlash on the same; by context."""
    records = [Record(_prompt(row), tuple(row.tokens[slice(*row.answers[-1])]), row.slice) for row in rows]
    drafter = checkpoint.load(options.drafter)
    found = measure(drafter, target, records)
    ratios = {label: found.tau(name) for name, label in NAMES.items() if not math.isnan(found.tau(name))}
    if options.second is not None:
        second = checkpoint.load(options.second)
        target.tap(second.config.target_layer_ids)
        ratios["tau_dflash2_over_dflash"] = measure(second, target, records).tau() / found.tau()
        target.tap(drafter.config.target_layer_ids)
    card = options.drafter / "drafter.json"
    tau = json.loads(card.read_text()).get("tau", {}) if card.exists() else {}
    if {"context-256", "context-4096"} <= tau.keys():
        ratios["tau_ctx4096_over_ctx256"] = tau["context-4096"] / tau["context-256"]
    return ratios


def _paired(
    name: str, target: Target, drafter: Any, asked: Sequence[tuple[dataset.Row, Answer, Answer]]
) -> dict[str, Any] | None:
    """One slice: vLLM's τ and the reference's on the same answers, and the time a token takes."""
    whole = [(row, plain, drafted) for row, plain, drafted in asked if drafted.steps and len(plain.tokens) > 1]
    if not whole:
        return None
    records = [Record(_prompt(row), drafted.tokens, name) for row, _, drafted in whole]
    reference = [float(1 + one.stood.sum(1).mean()) if len(one.stood) else math.nan for one in measure(
        drafter, target, records).records]  # fmt: skip
    engine = [statistics.fmean(drafted.steps) for _, _, drafted in whole]
    pairs = [(a, b) for a, b in zip(engine, reference, strict=True) if not math.isnan(b)]
    differences = [a - b for a, b in pairs]
    error = statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else None
    with_it = statistics.median(drafted.ms for _, _, drafted in whole)
    without = statistics.median(plain.ms for _, plain, _ in whole)
    return {
        "slice": name,
        "prompts": len(pairs),
        "tau_vllm": round(statistics.fmean(a for a, _ in pairs), 3),
        "tau_reference": round(statistics.fmean(b for _, b in pairs), 3),
        "tau_difference": round(statistics.fmean(differences), 4),
        "tau_difference_standard_error": None if error is None else round(error, 4),
        "decode_ms_with": round(with_it, 2),
        "decode_ms_without": round(without, 2),
        "decode_ms_over_none": with_it / without,
    }


if __name__ == "__main__":
    main()
