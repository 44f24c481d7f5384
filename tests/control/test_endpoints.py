"""What a user may do with an endpoint, on a real store; nothing is started, since nothing is there to start it on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.control.controller import Controller
from outrider.control.endpoints import EndpointService
from outrider.errors import InvalidInput
from outrider.spec.endpoint import parse
from outrider.spec.home import Home
from outrider.spec.inventory import Inventory
from outrider.store.database import Database, open_database
from outrider.store.endpoints import Endpoints
from tests.control.test_controller import Stand

MACHINE = Inventory(cores=2, memory_bytes=8 << 30, disk_free_bytes=50 << 30)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    home = Home(tmp_path / "home", tmp_path / "cache", tmp_path / "s")
    home.create()
    opened = open_database(home.store)
    yield opened
    opened.close()


@pytest.fixture
def service(tmp_path: Path, database: Database) -> EndpointService:
    home = Home(tmp_path / "home", tmp_path / "cache", tmp_path / "s")
    controller = Controller(home, database, Stand())
    return EndpointService(
        home, database, controller, inventory=lambda: MACHINE, poke=lambda: None, gateway_url=lambda: None
    )


def test_a_plan_for_hardware_that_is_not_here_is_made_and_never_started(
    service: EndpointService, database: Database
) -> None:
    spec = parse({"model": "openai/gpt-oss-120b", "resources": {"gpu": "H200:1"}})
    assert service.plan(spec).obstacles
    for change in (service.put, service.propose):
        with pytest.raises(InvalidInput, match="cannot start on this machine") as caught:
            change("big", spec, create=True)
        assert "this machine has 0" in (caught.value.why or "")
    assert Endpoints(database).list() == []
