"""TensorBoard hears of a run with its real package, Weights & Biases through a module of its shape."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from outrider.drafting.trackers import track
from outrider.drafting.training import Progress
from outrider.errors import MachineFault

TOLD = [Progress(10, 20, 3.5, 1.25, None, 900.0, 0), Progress(20, 20, 2.5, 1.75, 1.5, 1100.0, 1)]


def test_tensorboard_shows_each_number_at_its_step(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with track(tmp_path / "events", None) as tell:
        for progress in TOLD:
            tell(progress)
    (file,) = (tmp_path / "events").iterdir()
    events = EventAccumulator(str(file)).Reload()
    found = {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert found == {
        "training/loss": [(10, 3.5), (20, 2.5)],
        "training/eal": [(10, 1.25), (20, 1.75)],
        "training/tokens_per_second": [(10, 900.0), (20, 1100.0)],
        "training/held_out_eal": [(20, 1.5)],
    }


def test_wandb_hears_each_step_and_that_the_run_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[Any, ...]] = []

    def init(*, project: str) -> SimpleNamespace:
        heard.append(("init", project))
        return SimpleNamespace(
            log=lambda values, step: heard.append((step, values)), finish=lambda: heard.append(("finish",))
        )

    module = ModuleType("wandb")
    module.__dict__["init"] = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    with pytest.raises(KeyboardInterrupt), track(None, "drafters") as tell:
        for progress in TOLD:
            tell(progress)
        raise KeyboardInterrupt  # a run that is broken off is closed, too
    assert heard == [
        ("init", "drafters"),
        (10, {"loss": 3.5, "eal": 1.25, "tokens_per_second": 900.0}),
        (20, {"loss": 2.5, "eal": 1.75, "tokens_per_second": 1100.0, "held_out_eal": 1.5}),
        ("finish",),
    ]


def test_nothing_is_told_where_nobody_was_asked_for(tmp_path: Path) -> None:
    with track(None, None) as tell:
        tell(TOLD[0])
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("asked", "module", "package"), [("tensorboard", "torch.utils.tensorboard", "tensorboard"), ("wandb",) * 3]
)
def test_a_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, module: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MachineFault) as refused, track(*_asked(asked, tmp_path / "events")):
        pass
    assert str(refused.value) == f"{package} is not installed. pip install {package}"
    assert not (tmp_path / "events").exists()


def _asked(name: str, directory: Path) -> tuple[Path | None, str | None]:
    return (directory, None) if name == "tensorboard" else (None, "drafters")
