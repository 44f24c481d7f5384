"""``outrider drafter data``, ``train``, ``eval``, ``inspect`` and ``export`` as commands, for a tiny target."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from outrider.cli.main import run as outrider
from outrider.drafting import dataset
from outrider.drafting.target_digest import target_digest
from tests.e2e.outrider_process import free_port
from tests.models.real import smollm

from . import random_drafter, small_target

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
SETTINGS = """
shape: {layers: 2, mask_token: 2}
steps: 6
rows: 2
width: 128
anchors: 16
precision: fp32
validate_every: 3
save_every: 0
"""


def command(*words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run ``outrider drafter`` in a process of its own."""
    argv = [sys.executable, "-m", "outrider.cli.main", "drafter", *map(str, words)]
    done = subprocess.run(
        argv, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == code, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


def answered(*words: str | Path) -> Any:
    """What it prints with ``--json``, which is all that it prints."""
    return json.loads(command(*words, "--json").stdout)


@dataclass(frozen=True)
class Workshop:
    """Where one drafter was made, and what the commands said.

    Attributes:
        directory: of everything.
        target: the tiny target, on disk.
        data: that it wrote.
        drafter: trained on it.
        said: by command: ``data``, ``part`` (training up to a step) and ``rest`` (training to the end).
    """

    directory: Path
    target: Path
    data: Path
    drafter: Path
    said: dict[str, Any]


def save_target(directory: Path, seed: int = 0) -> Path:
    """The tiny target in Hugging Face's layout; nothing makes it say its mask token."""
    made = small_target.target(seed=seed)
    model: Any = made.model
    with torch.no_grad():
        model.lm_head.weight[2] = 0
    model.save_pretrained(directory)
    made.tokenizer.save_pretrained(directory)
    return directory


def conversations(file: Path) -> Path:
    """Six questions, two of them held out."""
    asked = [
        {"messages": [{"role": "user", "content": f"{word}?"}], "split": "held_out" if number % 3 == 2 else "train"}
        for number, word in enumerate(("who", "where", "when", "why", "what", "which"))
    ]
    file.write_text("\n".join(json.dumps(line) for line in asked))
    return file


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A drafter, made by the commands from nothing: data, training up to a step, training to the end."""
    torch.set_num_threads(1)
    here = tmp_path_factory.mktemp("workshop")
    target, data, drafter = save_target(here / "target"), here / "data", here / "drafter"
    prompts, settings = conversations(here / "prompts.jsonl"), here / "settings.yaml"
    settings.write_text(SETTINGS)
    said = {
        "data": answered("data", data, "--target", target, "--prompts", prompts, "--limit", "40", "--slots", "3",
                         "--width", "128")
    }  # fmt: skip
    train = ("train", drafter, "--target", target, "--data", data, "--settings", settings)
    said["part"] = answered(*train, "--until", "4")
    said["rest"] = answered(*train, "--resume", "--tensorboard", here / "events")
    return Workshop(here, target, data, drafter, said)


def test_data_is_rows_that_the_target_wrote(workshop: Workshop) -> None:
    found = dataset.read(workshop.data)
    assert found.manifest == workshop.said["data"]
    assert found.manifest["rows"] == {"train/chat": 4, "held_out/chat": 2}
    assert found.manifest["target"] == {"name": "target", "digest": target_digest(workshop.target)}
    assert all(17 <= row.supervised <= 40 for row in found.rows)


def test_training_stops_where_told_and_goes_on(workshop: Workshop) -> None:
    part, rest = workshop.said["part"], workshop.said["rest"]
    assert (part["step"], part["steps"], part["finished"]) == (4, 6, False)
    assert (rest["step"], rest["steps"], rest["finished"]) == (6, 6, True)
    assert rest["drafter"] == str(workshop.drafter)
    assert rest["held_out_eal"] >= 1 and rest["eal"] >= 1 and rest["loss"] > 0
    assert sorted(path.name for path in workshop.drafter.iterdir()) == [
        "config.json", "drafter.json", "model.safetensors", "training.pt"
    ]  # fmt: skip
    card = json.loads((workshop.drafter / "drafter.json").read_text())
    assert card["target"] == {"name": "target", "sha256": target_digest(workshop.target)}
    assert card["data"]["manifest"] == workshop.said["data"]["sha256"] and card["data"]["examples"] == 4
    assert (card["hyperparameters"]["steps"], card["hyperparameters"]["rows"]) == (6, 2)
    assert any((workshop.directory / "events").iterdir())


def test_eval_measures_and_writes_on_the_card(workshop: Workshop) -> None:
    words = ("eval", workshop.drafter, "--target", workshop.target, "--data", workshop.data)
    found = answered(*words, "--ngram", "--against", workshop.drafter)
    assert found["ratio"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    (chat, everything) = found[str(workshop.drafter)]["slices"]
    assert (chat["slice"], chat["records"], everything["slice"]) == ("chat", 2, "all")
    assert 1 <= chat["tau"]["low"] <= chat["tau"]["value"] <= chat["tau"]["high"] <= 8
    assert found["n-gram"]["slices"][0]["tau"]["value"] >= 1
    card = json.loads((workshop.drafter / "drafter.json").read_text())
    assert card["tau"]["chat"] == round(chat["tau"]["value"], 3)


def test_inspect_knows_it(workshop: Workshop) -> None:
    found = answered("inspect", workshop.drafter, "--target", workshop.target)
    assert [finding for finding in found["findings"] if finding["severity"] == "refuse"] == []
    assert found["facts"]["kind"] == "dflash"


def test_speculators_format_and_back_is_the_same_drafter(workshop: Workshop) -> None:
    there, back = workshop.directory / "speculators", workshop.directory / "back"
    target = ("--target", workshop.target)
    assert answered("export", workshop.drafter, "-o", there, "--format", "speculators", *target)["path"] == str(there)
    assert answered("export", there, "-o", back, "--format", "z-lab", *target)["format"] == "z-lab"
    first, second = (load_file(directory / "model.safetensors") for directory in (workshop.drafter, back))
    assert first.keys() == second.keys()
    assert all(torch.equal(value, second[name]) for name, value in first.items())


def test_gguf_is_written_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = random_drafter.write(tmp_path / "drafter")
    words = ["drafter", "export", str(source), "-o", str(tmp_path / "d.gguf"), "--target", str(smollm()), "--json"]
    assert outrider([*words, "--type", "F16"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said == {"path": str(tmp_path / "d.gguf"), "format": "gguf", "bytes": (tmp_path / "d.gguf").stat().st_size}
    assert outrider(words) == 2
    assert json.loads(capfd.readouterr().out)["title"] == f"There is something at {tmp_path}/d.gguf already"


def refusals(workshop: Workshop, tmp_path: Path) -> dict[str, tuple[list[str], int, str]]:
    """Command lines that are refused, with exit code and words."""
    target, data, drafter = str(workshop.target), str(workshop.data), str(workshop.drafter)
    output, port = str(tmp_path / "output"), free_port()
    prompts = str(workshop.directory / "prompts.jsonl")
    (tmp_path / "wrong.yaml").write_text("stepz: 4\n")
    other = str(tmp_path / "other")
    return {
        "nothing asked": (["data", output, "-t", target], 2, "Nothing is asked of the target"),
        "no prompts": (["data", output, "-t", target, "--prompts", output], 2, "cannot be read"),
        "no target": (["data", output, "-t", output, "--chats", "1"], 8, "No target can be loaded"),
        "no engine": (["data", output, "-t", target, "--prompts", prompts, "--url", f"http://127.0.0.1:{port}"], 6,
                      "The engine gave no completion"),
        "no data": (["train", output, "-t", target, "-d", output], 2, "No data can be read"),
        "unknown setting": (["train", output, "-t", target, "-d", data, "--settings", f"{tmp_path}/wrong.yaml"], 2,
                            "There is no setting stepz"),
        "other settings": (["train", drafter, "-t", target, "-d", data, "--resume"], 2, "belongs to other settings"),
        "other target": (["train", output, "-t", other, "-d", data], 2, "Another target wrote this data"),
        "measured on another": (["eval", drafter, "-t", other, "-d", data], 2, "Another target wrote this data"),
        "no split": (["eval", drafter, "-t", target, "-d", data, "--split", "test"], 2, "There is no split 'test'"),
        "no drafter": (["eval", output, "-t", target, "-d", data], 2, "No drafter can be read"),
        "unfit": (["inspect", drafter, "--target", str(smollm())], 2, "cannot draft for"),
        "no format": (["export", drafter, "-o", output, "--format", "onnx"], 2, "There is no format 'onnx'"),
        "no tokenizer": (["export", drafter, "-o", output, "--target", target], 2, "Name the target's GGUF file"),
        "no files": (["export", drafter, "-o", output], 2, "needs the target's files"),
    }  # fmt: skip


def test_refusals_are_one_line_and_leave_nothing(
    workshop: Workshop, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    save_target(tmp_path / "other", seed=1)
    card = (workshop.drafter / "drafter.json").read_bytes()
    for name, (words, code, said) in refusals(workshop, tmp_path).items():
        capfd.readouterr()
        assert outrider(["drafter", *words]) == code, name
        told = capfd.readouterr()
        assert said in " ".join(told.err.split()), (name, told.err)
        assert "Traceback" not in told.err, name
        assert not (tmp_path / "output").exists(), name
    assert (workshop.drafter / "drafter.json").read_bytes() == card


def test_a_refusal_is_an_object_with_json(workshop: Workshop) -> None:
    done = command("eval", workshop.drafter, "-t", workshop.target, "-d", workshop.directory / "none", "--json", code=2)
    problem = json.loads(done.stdout)
    assert problem["code"] == "invalid_dataset"
    assert problem["title"].startswith("No data can be read in")
