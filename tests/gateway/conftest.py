"""The gateway is tested on the event loop that it runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """uvloop for every test in this folder (a hook of pytest-asyncio 1.4)."""
    return {"uvloop": uvloop.new_event_loop}
