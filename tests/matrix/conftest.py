"""One Outrider for the whole matrix; around each case a look at everything it has."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.app import uv
from tests.matrix.bad_files import write_bad_files
from tests.matrix.house import House, close_house, open_house


@pytest.fixture(scope="session")
def house_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The running Outrider."""
    tmp_path_factory.getbasetemp()  # made now, or it would be made in the house's own temporary directory
    house = open_house()
    write_bad_files(house.files)
    house.outrider.run("drafter", "add", str(house.files / "one/small"))
    yield house
    close_house(house)


@pytest.fixture(scope="session")
def uv_directory(weights_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for the PATH that has uv and nothing else; the house has no index to fetch it from."""
    directory = tmp_path_factory.mktemp("uv")
    (directory / "uv").symlink_to(uv.find(weights_cache, {"PATH": ""}, lambda _: None).path)
    return directory


@pytest.fixture
def house(house_session: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """The same, with this process in its environment; afterwards it must have what it had before."""
    for name in [name for name in os.environ if name.startswith(("OUTRIDER_", "PIP_", "XDG_"))]:
        monkeypatch.delenv(name)
    for name, value in house_session.outrider.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", None)
    house_session.before()
    yield house_session
    monkeypatch.undo()
    house_session.check_unchanged()
