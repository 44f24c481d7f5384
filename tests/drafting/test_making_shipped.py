"""``make drafter`` on one core: every stage of scripts/drafter for the real target, by the settings' small section."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from outrider.drafting import checkpoint, dataset
from outrider.drafting.settings import parse
from tests.models.real import SHA256, smollm

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
STAGES = ("target", "data", "train:dflash", "train:dflash2", "eval:dflash,dflash2")
SMALL = yaml.safe_load((ROOT / "scripts/drafter.yaml").read_text())["small"]
SLICES = {f"context-{length}" for length in SMALL["eval"]["context_lengths"]}


def make(work: Path, *stages: str) -> str:
    """Run stages in ``work``, on one thread; what they say."""
    command = [sys.executable, str(ROOT / "scripts/drafter"), "--small", "--device", "cpu", "--work", str(work)]
    done = subprocess.run(
        [*command, "--gguf", str(smollm()), *stages],
        env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory in which both drafters were made, from the target's GGUF on."""
    directory = tmp_path_factory.mktemp("drafter")
    make(directory, *STAGES)
    return directory


def card(directory: Path) -> dict[str, Any]:
    """A drafter's."""
    found: dict[str, Any] = json.loads((directory / "drafter.json").read_text())
    return found


def test_the_target_wrote_the_data(work: Path) -> None:
    assert json.loads((work / "target/source.json").read_text())["sha256"] == SHA256
    found = dataset.read(work / "data")
    assert found.manifest["target"] == {"name": "SmolLM2-135M-Instruct", "digest": SHA256}
    assert found.manifest["sha256"] == hashlib.sha256((work / "data/rows.jsonl").read_bytes()).hexdigest()
    rows = found.manifest["rows"]
    assert sum(rows.values()) == len(found.rows)
    assert {key.partition("/")[0] for key in rows} == {"train", "held_out"}
    assert {row.slice for row in found.split("held_out")} >= {"chat"}
    assert {row.slice for row in found.split("train")} == {"chat", "code", "json"}
    assert all(row.supervised <= SMALL["data"]["limit"] for row in found.rows)
    dataset.check(
        found, vocabulary=49152, target=SHA256, mask_token=checkpoint.load(work / "dflash").config.mask_token_id
    )
    assert "templates_kept" in found.manifest["settings"]


@pytest.mark.parametrize(("name", "rank"), [("dflash", 0), ("dflash2", 32)])
def test_a_drafter_with_its_card_came_out(work: Path, name: str, rank: int) -> None:
    assert sorted(path.name for path in (work / name).iterdir()) == [
        "config.json", "drafter.json", "model.safetensors", "training.pt"
    ]  # fmt: skip
    drafter = checkpoint.load(work / name)
    assert (drafter.config.selector_rank or 0, drafter.config.block_size) == (rank, 8)
    assert {value.dtype for value in load_file(work / name / "model.safetensors").values()} == {torch.bfloat16}
    said = card(work / name)
    assert said["name"] == f"smollm2-135m-instruct-{name}"
    assert said["target"] == {"name": "SmolLM2-135M-Instruct", "sha256": SHA256}
    assert said["data"]["manifest"] == dataset.read(work / "data").manifest["sha256"]
    assert parse(said["hyperparameters"]).shape.selector_rank == rank
    assert (work / f"{name}.steps").read_text() == f"{SMALL['train']['steps']}\n"
    assert said["hyperparameters"]["steps"] == SMALL["train"]["steps"]


def test_both_were_measured_on_what_n_grams_were(work: Path) -> None:
    found = json.loads((work / "evaluation.json").read_text())
    assert set(found) == {"n-gram", "dflash", "dflash2"}
    for name in ("dflash", "dflash2"):
        assert card(work / name)["evaluation"] == found[name]
        assert set(card(work / name)["tau"]) >= {"all", *SLICES}
        assert {one["slice"] for one in found[name]["after_context"]} == {"all", *SLICES}
        for one in found[name]["slices"]:
            assert 1 <= one["tau"]["low"] <= one["tau"]["value"] <= one["tau"]["high"] <= 8
    counted = [{one["slice"]: one["records"] for one in found[name]["slices"]} for name in ("dflash", "dflash2")]
    assert counted[0] == counted[1] and counted[0]["all"] >= 2


def test_the_seed_decides_and_what_is_done_is_not_done_again(work: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file()}
    for name in ("target", "data"):
        (tmp_path / name).symlink_to(work / name)
    make(tmp_path, "target", "data", "train:dflash")
    assert {path: path.stat().st_mtime_ns for path in work.rglob("*") if path.is_file()} == before
    first, again = (load_file(directory / "dflash/model.safetensors") for directory in (work, tmp_path))
    assert all(torch.equal(value, again[name]) for name, value in first.items())
