"""How a tuning speaks: what came out stands before any question, and its bar keeps to one line."""

from __future__ import annotations

import io
import sys
from datetime import date
from typing import Any

import pytest
import typer
from rich.console import Console

from outrider.cli import tune, tuning
from outrider.errors import GenerationMismatch
from outrider.recipes.schema import Recipe
from outrider.tuning import findings
from outrider.tuning.recipe import Circumstances, recipe_of
from outrider.tuning.tuner import Tuner, Tuning
from tests.tuning.world import FakeBench, FakeClock, Quiet, job


@pytest.fixture(scope="module")
def made() -> Tuning:
    """Drafting is found to be twice as fast as none."""
    bench = FakeBench(FakeClock(), lambda setting, at: 0.01 if setting.plain else 0.005)
    return Tuner(job(stages=("speculation",), methods=("off", "ngram")), bench, Quiet(), clock=bench.clock).run()


def conclude(made: Tuning, recipe: Recipe | None = None, *, yes: bool = True) -> None:
    data = {"date": "2026-11-30", "machine": "a CPU", **findings.as_dict(made)}
    written = (data, {"report": "/there/tuned-mine.md"}, recipe)
    tune._conclude(made, written, {"name": "mine"}, promote=True, yes=yes, as_json=False)


def test_what_was_measured_is_shown_even_if_the_promotion_fails(
    made: Tuning, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody changed the endpoint in the quarter of an hour that the tuning took."""

    def refused(*given: Any, **how: Any) -> None:
        raise GenerationMismatch("mine changed meanwhile")

    monkeypatch.setattr(tune, "_promote", refused)
    with pytest.raises(GenerationMismatch):
        conclude(made)
    said = capsys.readouterr().out
    assert "Best: speculation ngram" in said and "/there/tuned-mine.md" in said


def test_a_no_promotes_nothing_and_is_no_error(
    made: Tuning, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_of(made, Circumstances("a CPU", "outrider endpoint tune", date(2026, 11, 30)))
    asked: list[str] = []

    def no(question: str) -> bool:
        assert "Best: speculation ngram" in capsys.readouterr().out, "the answer is asked for before it can be known"
        asked.append(question)
        return False

    monkeypatch.setattr(typer, "confirm", no)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(Console, "is_terminal", True)
    conclude(made, recipe, yes=False)
    assert len(asked) == 1 and "nothing was promoted" in capsys.readouterr().out


@pytest.mark.parametrize("width", [64, 80, 110])
def test_the_bar_keeps_to_one_line_in_which_the_time_that_is_left_is_whole(width: int) -> None:
    console = Console(width=width, force_terminal=True, file=io.StringIO())
    bars = tuning._Clock(*tuning._columns(), console=console, expand=True)
    display = tuning.Display(3599.0, quiet=False, bars=bars)
    display._update(description="speculation · dflash block".ljust(tuning._WIDE), doing="questions: 6 requests " * 4)
    display._update(best="best so far: threads=2, batch_size=2048, dflash block 8")
    with console.capture() as shown:
        console.print(bars.get_renderable())
    lines = shown.get().strip("\n").splitlines()
    assert len(lines) == 1 and "59 min 59 s left" in lines[0] and "speculation · dflash block" in lines[0]
