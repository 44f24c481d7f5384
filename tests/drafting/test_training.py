"""Training on a tiny target: it learns, resumes bit for bit, follows its seed, and refuses bad data."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from outrider.drafting import dataset, settings, training
from outrider.drafting.dataset import Dataset, Row
from outrider.drafting.training import Progress, Trainer
from outrider.errors import InvalidDataset, UsageError

from . import small_target

PLAIN: dict[str, Any] = {
    "shape": {"layers": 2, "mask_token": 2},
    "steps": 6,
    "rows": 2,
    "width": 128,
    "anchors": 16,
    "precision": "fp32",
    "labels": "data",
    "validate_every": 3,
    "save_every": 0,
}


def _trainer(directory: Path, *, data: Dataset | None = None, **changed: Any) -> Trainer:
    chosen = settings.parse(PLAIN | changed)
    target = small_target.target()
    drafter = training.fresh(chosen, target)
    return Trainer(drafter, target, data or small_target.dataset(), chosen, directory, digest=small_target.DIGEST)


def _weights(trainer: Trainer) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in trainer.drafter.parameters()]


def _equal(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("changed", [{}, {"labels": "target", "joined": 0.5}, {"loss": {"objective": "kd"}},
                                     {"loss": {"objective": "ce"}},
                                     {"shape": {"layers": 2, "mask_token": 2, "selector_rank": 4}},
                                     {"precision": "bf16", "gradient_checkpointing": True},
                                     {"optimizer": {"name": "adamw", "schedule": "wsd", "ema": 0.0}}])  # fmt: skip
def test_a_resumed_run_ends_bit_for_bit_where_a_whole_one_does(tmp_path: Path, changed: dict[str, Any]) -> None:
    whole = _trainer(tmp_path / "whole", **changed)
    whole.run()
    part = _trainer(tmp_path / "part", **changed)
    part.run(until=4)
    assert not part.finished
    rest = _trainer(tmp_path / "part", **changed)
    assert rest.resume()
    assert rest.step == 4
    rest.run()
    assert rest.finished
    assert _equal(_weights(whole), _weights(rest))


def test_training_follows_its_seed(tmp_path: Path) -> None:
    runs = [_trainer(tmp_path / str(number), seed=seed) for number, seed in enumerate((3, 3, 4))]
    for run in runs:
        run.run()
    assert _equal(_weights(runs[0]), _weights(runs[1]))
    assert not _equal(_weights(runs[0]), _weights(runs[2]))


def test_a_drafter_learns_what_repeats_itself(tmp_path: Path) -> None:
    heard: list[Progress] = []
    trainer = _trainer(
        tmp_path, steps=150, rows=4, data=small_target.dataset(4), optimizer={"lr": 3e-3, "muon_lr": 1e-2}
    )
    trainer.run(heard.append, every=10)
    assert heard[0].eal < 1.5
    assert heard[-1].eal > 4
    assert heard[-1].loss < heard[0].loss


def test_steps_are_fitted_to_the_minutes(tmp_path: Path) -> None:
    trainer = _trainer(tmp_path, steps=0, minutes=0.001)
    trainer.run()
    assert trainer.finished
    assert trainer.steps >= 45


def test_a_state_of_other_settings_is_not_resumed(tmp_path: Path) -> None:
    _trainer(tmp_path).run(until=2)
    with pytest.raises(UsageError, match="belongs to other settings"):
        _trainer(tmp_path, anchors=8).resume()


def _bad(index: int, **changed: Any) -> Dataset:
    data = small_target.dataset()
    rows = list(data.rows)
    rows[index] = replace(rows[index], **changed)
    return Dataset(rows, data.manifest)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_bad(5, answers=[]), r"Line 6 of rows.jsonl \(row-5\).*loss mask is empty"),
        (_bad(2, tokens=[5] * 39 + [259]), r"Line 3 .*token 259 is none of the target's 259"),
        (_bad(1, tokens=[5] * 39 + [2]), r"Line 2 .*uses the mask token 2"),
        (_bad(0, answers=[(6, 41)]), r"Line 1 .*outside of its tokens"),
        (Dataset([], {"target": {"digest": small_target.DIGEST}}), "no rows to train on"),
        (Dataset(small_target.dataset().rows, {"target": {"digest": "e" * 64}}), "Another target wrote this data"),
    ],
)
def test_bad_data_stops_before_the_first_step(tmp_path: Path, data: Dataset, message: str) -> None:
    with pytest.raises(InvalidDataset) as caught:
        _trainer(tmp_path, data=data)
    assert re.search(message, str(caught.value))
    assert not any(tmp_path.iterdir())


def test_a_line_that_is_no_row_is_named(tmp_path: Path) -> None:
    dataset.write(tmp_path, [Row("a", "chat", "train", None, [1, 2, 3], [(1, 3)])], {})
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write('{"id": "b"}\n')
    with pytest.raises(InvalidDataset, match=r"Line 2 of rows\.jsonl is no row"):
        dataset.read(tmp_path)


def test_objective_optimizer_and_schedule_are_those_of_the_settings(tmp_path: Path) -> None:
    changes: dict[str, dict[str, Any]] = {
        "as it is": {},
        "ce": {"loss": {"objective": "ce"}},
        "kd": {"loss": {"objective": "kd"}},
        "adamw": {"optimizer": {"name": "adamw"}},
        "wsd": {"optimizer": {"schedule": "wsd"}},
        "joined": {"joined": 1.0},
    }
    ends = {}
    for name, changed in changes.items():
        trainer = _trainer(tmp_path / name, **changed)
        trainer.run()
        ends[name] = _weights(trainer)
    for first, second in itertools.combinations(ends, 2):
        assert not _equal(ends[first], ends[second]), (first, second)


def test_gradient_checkpointing_changes_nothing_but_memory(tmp_path: Path) -> None:
    ends = []
    for recomputed in (False, True):
        trainer = _trainer(tmp_path / str(recomputed), gradient_checkpointing=recomputed)
        assert trainer.drafter.gradient_checkpointing is recomputed
        trainer.run()
        ends.append(_weights(trainer))
    assert _equal(*ends)


LAUNCHERS = {
    "torchrun": ("torch.distributed.run", "--standalone", "--nproc-per-node=2"),
    "accelerate": (
        "accelerate.commands.launch", "--multi_gpu", "--num_processes=2", "--num_machines=1", "--main_process_port=0",
        "--gpu_ids=all", "--mixed_precision=no", "--dynamo_backend=no",
    ),
}  # fmt: skip


@pytest.mark.parametrize("launcher", LAUNCHERS.values(), ids=LAUNCHERS)
def test_two_processes_average_their_gradients(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        "import sys, torch\nfrom pathlib import Path\n"
        "from tests.drafting import test_training as t\n"
        "torch.set_num_threads(1)\n"
        "trainer = t._trainer(Path(sys.argv[1]), rows=1, steps=3, optimizer={'name': 'adamw', 'clip': 0.0})\n"
        "trainer.run()\n"
        "torch.save(t._weights(trainer), f'{sys.argv[1]}/weights-{trainer._world.rank}.pt')\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", *launcher, str(script), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    first, second = (torch.load(tmp_path / f"weights-{rank}.pt") for rank in (0, 1))
    assert _equal(first, second)
    assert not _equal(first, _weights(_trainer(tmp_path / "other")))
