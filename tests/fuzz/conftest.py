"""The gateway is fuzzed on the event loop that it runs on."""

from __future__ import annotations

from tests.gateway.conftest import pytest_asyncio_loop_factories as pytest_asyncio_loop_factories
