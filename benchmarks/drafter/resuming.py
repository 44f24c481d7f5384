"""Whether training that was stopped and resumed ends where training that was not does, as near as two runs ever do.

    python -m benchmarks.drafter.resuming --target DIRECTORY --data DIRECTORY [--device cuda]

On a CPU runs of one seed are equal to the bit. On CUDA they are not, so what counts is whether a resumed run lies
further from whole runs than these lie from each other. Two controls show that the distance would tell: a run of another
seed, and runs that lose the optimiser's state on the way. Distances are of the averaged weights, relative to their
norm. Writes ``results/resuming.json``.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import torch
import yaml
from rich.progress import track
from torch import Tensor

from outrider._version import __version__
from outrider.drafting import dataset, settings, training
from outrider.drafting.target import Target

RESULT = Path(__file__).with_name("results") / "resuming.json"
SETTINGS = Path(__file__).parents[2] / "scripts" / "drafter.yaml"


@dataclass(frozen=True)
class Ended:
    """Where a run ended.

    Attributes:
        weights: averaged, all in one row.
        held_out: expected acceptance length on held-out rows; NaN where there are none.
    """

    weights: Tensor
    held_out: float


@dataclass(frozen=True)
class Bench:
    """What all runs have in common."""

    target: Target
    data: dataset.Dataset
    used: settings.TrainSettings

    def run(self, seed: int = 0, *, stopped: bool = False, forgetful: bool = False) -> Ended:
        """Train once.

        Args:
            seed: of everything.
            stopped: end after half of the steps, and go on from the saved state with fresh objects.
            forgetful: lose the optimiser's state in between.
        """
        used = replace(self.used, seed=seed)
        with tempfile.TemporaryDirectory(prefix="outrider-resuming-") as scratch:
            if stopped:
                self._trainer(used, Path(scratch)).run(until=used.steps // 2)
                if forgetful:
                    _forget(Path(scratch) / training.STATE, self._trainer(used, Path(scratch) / "new"))
            trainer = self._trainer(used, Path(scratch))
            if trainer.resume() is not stopped:
                raise SystemExit("A saved state was not found where it should be, or was where none should be.")
            heard: list[float] = []
            trainer.run(lambda progress: heard.append(progress.held_out or float("nan")))
        weights = torch.cat([one.detach().float().flatten().cpu() for one in trainer.drafter.parameters()])
        return Ended(weights, heard[-1])

    def _trainer(self, used: settings.TrainSettings, directory: Path) -> training.Trainer:
        drafter = training.fresh(used, self.target)
        digest = self.data.manifest["target"]["digest"]
        return training.Trainer(drafter, self.target, self.data, used, directory, digest=digest)


def _forget(state: Path, new: training.Trainer) -> None:
    """Put a new run's optimiser into a saved state."""
    new.save()
    fresh = torch.load(state.parent / "new" / training.STATE, weights_only=True)
    torch.save(torch.load(state, weights_only=True) | {"optimizer": fresh["optimizer"]}, state)


def apart(one: Ended, other: Ended) -> float:
    """Distance of two runs' weights, as a share of their norm."""
    return float((one.weights - other.weights).norm() / one.weights.norm())


def spread(pairs: Sequence[tuple[Ended, Ended]]) -> dict[str, float]:
    """Median, least and largest distance."""
    found = [apart(*pair) for pair in pairs]
    return {"median": statistics.median(found), "low": min(found), "high": max(found)}


def measured(bench: Bench, rounds: int, follow: Callable[[Sequence[str]], Iterable[str]] = list) -> dict[str, Any]:
    """Every run, in turns, and how far they ended from each other.

    Args:
        bench: what they have in common.
        rounds: runs of each kind, two at least.
        follow: wraps the list of runs, to show progress.
    """
    kinds: dict[str, Callable[[], Ended]] = {
        "whole": bench.run,
        "resumed": lambda: bench.run(stopped=True),
        "without_optimizer": lambda: bench.run(stopped=True, forgetful=True),
        "other_seed": lambda: bench.run(seed=1),
    }
    ended: dict[str, list[Ended]] = {name: [] for name in kinds}
    for name in follow([*kinds] * rounds):
        ended[name].append(kinds[name]())
    whole = ended["whole"]
    spreads = {
        name: spread(list(combinations(whole, 2)) if name == "whole" else list(product(runs, whole)))
        for name, runs in ended.items()
    }
    base = spreads.pop("whole")
    return {
        "rounds": rounds,
        "rows": [
            {"run": name, **found, "held_out": [round(one.held_out, 4) for one in ended[name]]}
            for name, found in {"whole": base, **spreads}.items()
        ],
        "ratios": {
            f"{name}_over_run_to_run": round(found["median"] / base["median"], 4)
            for name, found in spreads.items()
            if base["median"]
        },
    }


def part(data: dataset.Dataset, most: int) -> dataset.Dataset:
    """As many of its rows of each split: what is left out takes time to pack, and no run here would reach it."""
    chosen = [row for split in ("train", "held_out") for row in data.split(split)[:most]]
    return replace(data, rows=chosen)


def main() -> None:
    """Train, and write what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", type=Path, required=True, help="the model in Hugging Face's layout")
    parser.add_argument("--data", type=Path, required=True, help="what `drafter data` wrote")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind")
    parser.add_argument("--rows", type=int, default=4, help="packed rows of a step")
    parser.add_argument("--examples", type=int, default=2000, help="conversations of each split")
    options = parser.parse_args()
    on_gpu = options.device != "cpu"
    used = replace(
        settings.parse(yaml.safe_load(SETTINGS.read_text())["dflash"]),
        steps=options.steps, rows=options.rows, width=2048, anchors=128, compile=False, validate_every=0, save_every=0,
    )  # fmt: skip
    target = Target.load(options.target, device=options.device, dtype=torch.bfloat16 if on_gpu else torch.float32)
    bench = Bench(target, part(dataset.read(options.data), options.examples), used)
    found = {
        "machine": torch.cuda.get_device_name() if on_gpu else platform.machine(),
        "versions": {"outrider": __version__, "torch": torch.__version__},
        "steps": options.steps,
        **measured(bench, options.rounds, lambda runs: track(runs, "training")),
    }
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    main()
