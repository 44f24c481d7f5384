from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.api import READY, Api, look, replica_failed
from tests.cli.conftest import Run
from tests.client.standin import Standin

_FAILED = look(status="failed", state="failed", reason="it died")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "serve.py"
    path.write_text("# é\n")
    return path


def test_a_file_becomes_the_next_revision(outrider: Run, api: Api, controller: Standin, file: Path) -> None:
    api.looks = [look("starting"), READY]
    assert "small serves revision 1 at http" in outrider("deploy", str(file)).out
    (asked,) = [asked for asked in controller.asked if asked.path.endswith("/deployments")]
    assert asked.body == {"source": "# é\n"}
    assert json.loads(outrider("deploy", str(file), "--json").out)["name"] == "small"


def test_a_failed_first_deployment_leaves_nothing(outrider: Run, api: Api, controller: Standin, file: Path) -> None:
    api.looks, api.events = [_FAILED], [replica_failed("start_timeout", "Too slow")]
    assert outrider("deploy", str(file)).code == 9
    assert not api.exists


def test_a_failed_later_one_leaves_the_endpoint(outrider: Run, api: Api, controller: Standin, file: Path) -> None:
    api.exists, api.looks = True, [_FAILED]
    assert outrider("deploy", str(file)).code == 9
    assert api.exists


def test_a_file_that_cannot_be_read_is_refused(outrider: Run, controller: Standin, tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe")
    for path in (tmp_path / "absent.py", tmp_path, tmp_path / "binary.py"):
        done = outrider("deploy", str(path))
        assert done.code == 2
        assert "cannot be read" in done.err
    assert controller.asked == []
