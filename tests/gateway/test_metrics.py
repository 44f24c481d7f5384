"""Who may see the numbers, and that they are those of the whole gateway."""

from __future__ import annotations

import pytest

from outrider.errors import Forbidden, Unauthorized
from outrider.gateway import auth
from outrider.gateway import table as tables
from outrider.metrics.exposition import merge
from tests.gateway.client import chat, get, key, serving, table
from tests.gateway.standin import Standin

KEYS = [key("user"), key("admin", scopes=["admin"])]


@pytest.mark.parametrize("header", ["X-Forwarded-For: 10.1.2.3", "Forwarded: for=10.1.2.3", "Via: 1.1 proxy"])
async def test_with_keys_a_proxy_on_this_machine_is_not_this_machine(header: str) -> None:
    async with serving(table(keys=KEYS)) as served:
        assert (await served.ask(get("/metrics"))).status == 200
        assert (await served.ask(get("/metrics", header))).status == 401
        assert (await served.ask(get("/metrics", header, "Authorization: Bearer user"))).status == 403
        assert (await served.ask(get("/metrics", header, "Authorization: Bearer admin"))).status == 200


def test_from_elsewhere_an_admin_key_is_needed_once_there_are_keys() -> None:
    open_, closed = tables.parse(table()), tables.parse(table(keys=KEYS))
    auth.check_scraper(open_, None, 0, near=False)
    auth.check_scraper(closed, None, 0, near=True)
    auth.check_scraper(closed, b"admin", 0, near=False)
    with pytest.raises(Unauthorized):
        auth.check_scraper(closed, None, 0, near=False)
    with pytest.raises(Forbidden):
        auth.check_scraper(closed, b"user", 0, near=False)


def text(counts: str, up: int) -> str:
    """One worker's numbers."""
    return f"# HELP a_total A.\n# TYPE a_total counter\n{counts}\n# HELP up U.\n# TYPE up gauge\nup {up}\n"


def test_numbers_of_workers_add_up() -> None:
    one = text('a_total{x="1"} 2\na_total{x="2"} 1.5', 1)
    two = text('a_total{x="1"} 3\na_total{x="3 \\"b"} 4', 0)
    both = text('a_total{x="1"} 5\na_total{x="2"} 1.5\na_total{x="3 \\"b"} 4', 0)
    assert merge([one, two], {"up"}) == both


async def test_merging_one_text_changes_nothing() -> None:
    async with Standin() as engine, serving(table([engine])) as served:
        assert (await served.ask(chat(stream=True))).status == 200
        own = served.gateway.exposition()
        assert merge([own]) == own
        assert 'outrider_gateway_overhead_seconds_count{endpoint="tiny",revision="2",replica="r0"} 1' in own
