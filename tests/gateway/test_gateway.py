"""The parts together: saved tables, replicas that come and go, bounded memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.errors import PortTaken
from outrider.gateway.gateway import Gateway
from tests.gateway.client import chat, serving, table
from tests.gateway.standin import Standin


async def test_saved_table_serves_before_any_controller(tmp_path: Path) -> None:
    saved = tmp_path / "table.json"
    async with Standin() as engine:
        saved.write_text(json.dumps(table([engine])))
        async with serving(table_file=saved) as served:
            assert (await served.ask(chat())).status == 200


async def test_broken_saved_table_is_not_fatal(tmp_path: Path) -> None:
    saved = tmp_path / "table.json"
    saved.write_text("{")
    async with serving(table_file=saved) as served:
        assert (await served.ask(chat())).status == 404


async def test_unwritable_table_file_is_not_fatal(tmp_path: Path) -> None:
    async with serving(table_file=tmp_path / "missing" / "table.json") as served:
        assert served.gateway.use(table(version=3))
        assert served.gateway.table.version == 3


async def test_port_taken() -> None:
    async with serving() as served:
        with pytest.raises(PortTaken) as caught:
            await Gateway().start("127.0.0.1", served.port)
        assert str(served.port) in str(caught.value)


async def test_replica_that_changed_its_address_is_followed() -> None:
    async with Standin("a") as first, Standin("b") as second, serving(table([first])) as served:
        for engine in (first, second):
            served.gateway.use(table([engine]))
            reply = await served.ask(chat())
            assert reply.json()["choices"][0]["message"]["content"] == engine.name


async def test_numbers_of_gone_replicas_are_folded() -> None:
    async with Standin() as engine, serving() as served:
        for version in range(20):
            data = table([engine], version=version)
            data["replicas"][0]["id"] = f"replica-{version}"
            served.gateway.use(data)
            assert (await served.ask(chat())).status == 200
        assert set(served.gateway.numbers.series) == {("tiny", 2, "retired"), ("tiny", 2, "replica-19")}
        retired = served.gateway.numbers.series["tiny", 2, "retired"]
        assert retired.prompt_tokens == 19 * 7
        assert retired.e2e.count == 19


async def test_records_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.gateway.numbers._BACKLOG", 3)
    async with Standin() as engine, serving(table([engine])) as served:
        for _ in range(5):
            await served.ask(chat())
        numbers = served.gateway.numbers
        assert (len(numbers.records), numbers.records_lost) == (3, 2)
        assert len(numbers.take_records(2)) == 2
        assert len(numbers.records) == 1
