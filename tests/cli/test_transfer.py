from __future__ import annotations

import io

import pytest
from rich.console import Console

from outrider.app.server import Progress
from outrider.cli import transfer


def test_on_a_terminal_a_bar_shows_bytes_and_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(transfer, "console", Console(file=out, force_terminal=True, width=120))
    with transfer.transfer(quiet=False) as report:
        report(Progress("asking"))
        for done in (50_000_000, 60_000_000, 70_000_000, 98_400_000):
            report(Progress("down\x1b[2Jloading [x]", done, 98_400_000))
    assert "downloading [x]" in out.getvalue()
    assert "98.4/98.4 MB" in out.getvalue()
    assert "B/s" in out.getvalue()


def test_elsewhere_each_step_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with transfer.transfer(quiet=False) as report:
        for done in (1, 2, 3):
            report(Progress("downloading", done, 3000))
        report(Progress("checking"))
    assert capsys.readouterr().out == "  downloading (3.0 kB)\n  checking\n"


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with transfer.transfer(quiet=True) as report:
        report(Progress("downloading", 1, 3))
    assert capsys.readouterr().out == ""
