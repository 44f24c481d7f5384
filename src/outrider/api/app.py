"""The REST API as one FastAPI application. Its OpenAPI description is checked in and compared by a test."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fastapi import FastAPI

from outrider._version import __version__
from outrider.api import catalog, drafters, endpoints, keys, problems, status
from outrider.api.limits import LimitedBody
from outrider.control.controller import Controller
from outrider.control.drafters import DrafterService
from outrider.control.endpoints import EndpointService
from outrider.control.processes import saved_url
from outrider.drafting.registry import Registry
from outrider.placement.base import Placement
from outrider.spec.home import Home
from outrider.spec.inventory import Inventory
from outrider.store.database import Database
from outrider.store.drafters import Drafters
from outrider.store.keys import Keys
from outrider.store.usage import Usage

PREFIX = "/api/v1"


def create_app(
    home: Home,
    database: Database,
    controller: Controller,
    placement: Placement,
    *,
    inventory: Callable[[], Inventory],
    poke: Callable[[], None],
    url: str,
    started_at: int,
) -> FastAPI:
    """Put the routers together. ``poke`` makes the controller act now, from any thread."""
    app = FastAPI(
        title="Outrider",
        version=__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
    )
    problems.install(app)
    app.add_middleware(LimitedBody)
    registry = Registry(Drafters(database))
    service = EndpointService(
        home,
        database,
        controller,
        inventory=inventory,
        poke=poke,
        gateway_url=partial(_gateway_url, home, controller),
        bound=registry.bound,
    )
    for router in (
        endpoints.router(service, placement),
        catalog.router(service, inventory),
        drafters.router(DrafterService(registry, service)),
        keys.router(Keys(database), Usage(database), poke),
        status.router(home, controller, url=url, started_at=started_at),
    ):
        app.include_router(router, prefix=PREFIX)
    return app


def _gateway_url(home: Home, controller: Controller) -> str | None:
    """Of a gateway that is connected, else of the one that was started here last; None: none ever was."""
    connected = next((str(gateway["url"]) for gateway in controller.link.gateways()), None)
    try:
        return connected or saved_url(home, "gateway")
    except (OSError, ValueError):
        return None
