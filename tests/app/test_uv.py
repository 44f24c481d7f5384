"""uv: which one is taken, what its output becomes, and how it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.app import uv
from outrider.app.server import Progress
from outrider.errors import DiskFull, EnvironmentFailed


def script(path: Path, text: str) -> Path:
    """A program that stands in for uv, to fail and to speak as it does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def run(path: Path, said: list[Progress] | None = None) -> str:
    found: list[Progress] = [] if said is None else said
    return uv.Uv(path, {"PATH": "/usr/bin:/bin"}).run(["x"], purpose="install it", report=found.append)


def test_downloads_become_bytes(tmp_path: Path) -> None:
    lines = [
        "Resolved 2 packages in 1ms",
        "Downloading torch (182.5MiB)",
        "Downloading six (10.0KiB)",
        " Downloaded six",
    ]
    said: list[Progress] = []
    run(
        script(tmp_path / "uv", "\n".join(f"echo '{line}' >&2" for line in [*lines, "Prepared 2 packages in 1s"])), said
    )
    total = round(182.5 * 2**20) + 10 * 2**10
    assert [(progress.done, progress.total) for progress in said] == [
        (0, round(182.5 * 2**20)),
        (0, total),
        (10 * 2**10, total),
        (total, total),
    ]
    assert said[0].detail == "environment: downloading torch (182.5MiB)"


def test_its_output_is_returned_and_standard_input_reaches_it(tmp_path: Path) -> None:
    found = uv.Uv(script(tmp_path / "uv", "cat; echo $1"), {"PATH": "/usr/bin:/bin"})
    assert found.run(["word"], purpose="p", report=lambda _: None, standard_input="six\n") == "six\nword\n"


def test_its_last_message_is_the_reason(tmp_path: Path) -> None:
    message = (
        "Resolving\n  × No solution found when resolving dependencies:\n"
        "  ╰─▶ Because x was not found and you require x,\n      we can conclude that it is unsatisfiable."
    )
    with pytest.raises(EnvironmentFailed) as caught:
        run(script(tmp_path / "uv", f"cat >&2 <<'END'\n{message}\nEND\nexit 1"))
    assert caught.value.why == (
        "No solution found when resolving dependencies: Because x was not found and you require x,"
        " we can conclude that it is unsatisfiable"
    )
    assert caught.value.details["log"][0] == "Resolving"


def test_its_causes_follow_each_other(tmp_path: Path) -> None:
    message = (
        "Using Python 3.11.7 environment at: v\nerror: Request failed after 3 retries in 8.3s\n"
        "  cause: Failed to fetch: http://mirror/simple/six/\n  cause: Connection refused (os error 111)"
    )
    with pytest.raises(EnvironmentFailed) as caught:
        run(script(tmp_path / "uv", f"cat >&2 <<'END'\n{message}\nEND\nexit 1"))
    assert caught.value.why == (
        "Request failed after 3 retries in 8.3s: Failed to fetch: http://mirror/simple/six/:"
        " Connection refused (os error 111)"
    )


def test_a_silent_failure_says_its_code(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="code 3"):
        run(script(tmp_path / "uv", "exit 3"))


def test_a_full_disk_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(DiskFull):
        run(script(tmp_path / "uv", "echo 'error: No space left on device (os error 28)' >&2; exit 2"))


def test_an_interrupted_build_ends_its_uv(tmp_path: Path) -> None:
    class Stop(BaseException):
        pass

    def interrupt(_: Progress) -> None:
        raise Stop

    path = script(tmp_path / "uv", f"echo $$ > {tmp_path}/pid; echo 'Downloading six (1.0KiB)' >&2; exec sleep 600")
    with pytest.raises(Stop):
        uv.Uv(path, {"PATH": "/usr/bin:/bin"}).run([], purpose="p", report=interrupt)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_one_on_the_path_is_taken_unless_it_is_too_old(tmp_path: Path) -> None:
    new, old = (script(tmp_path / name / "uv", f"echo 'uv {v}'") for name, v in (("new", "0.11.2"), ("old", "0.2.1")))
    own = script(tmp_path / "cache/tools" / f"uv-{uv.VERSION}", "echo own")
    for directory, expected in ((new.parent, new), (old.parent, own), (tmp_path / "none", own)):
        assert uv.find(tmp_path / "cache", {"PATH": str(directory)}, lambda _: None).path == expected


def test_it_is_fetched_where_there_is_none(tmp_path: Path) -> None:
    said: list[Progress] = []
    assert uv.present(tmp_path, {"PATH": ""}) is None
    found = uv.find(tmp_path, {"PATH": ""}, said.append)
    assert uv.present(tmp_path, {"PATH": ""}) == found.path, "it is not fetched again, and doctor knows of it"
    assert "fetching uv" in said[0].detail
    assert found.run(["--version"], purpose="p", report=said.append).startswith(f"uv {uv.VERSION}")
    assert [path.name for path in (tmp_path / "tools").iterdir()] == [f"uv-{uv.VERSION}"]


def test_an_index_without_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(EnvironmentFailed) as caught:
        uv.find(tmp_path / "cache", {"PATH": ""}, lambda _: None)
    assert "No matching distribution" in str(caught.value)
    assert list((tmp_path / "cache/tools").iterdir()) == []
