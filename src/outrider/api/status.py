"""``/status``: what is up."""

from __future__ import annotations

import os
from typing import Any

from fastapi import APIRouter

from outrider._version import __version__
from outrider.control.controller import Controller
from outrider.spec.home import Home


def router(home: Home, controller: Controller, *, url: str, started_at: int) -> APIRouter:
    """The route."""
    routes = APIRouter(tags=["status"])

    @routes.get("/status")
    def status() -> dict[str, Any]:
        """Controller, gateways and counts."""
        gateways = controller.link.gateways()
        first = gateways[0] if gateways else {}
        members = controller.members()
        return {
            "version": __version__,
            "controller": {"pid": os.getpid(), "url": url, "started_at": started_at, "home": str(home.root)},
            "gateway": {"pid": first.get("pid"), "url": first.get("url"), "connected": bool(gateways)},
            "endpoints": len({member.endpoint for member in members}),
            "replicas": len(members),
        }

    return routes
