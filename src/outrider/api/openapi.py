"""The OpenAPI description without a running controller, for the file that is checked in."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from outrider.api.app import create_app
from outrider.control.controller import Controller
from outrider.placement.discover import discover
from outrider.placement.local import LocalPlacement
from outrider.spec.home import Home
from outrider.store.database import open_database


def description() -> dict[str, Any]:
    """Build the application on a throw-away home and describe it."""
    with tempfile.TemporaryDirectory(prefix="outrider-openapi-") as directory:
        root = Path(directory)
        home = Home(root / "home", root / "cache", root / "sockets")
        home.create()
        database = open_database(home.store)
        placement = LocalPlacement(home)
        try:
            app = create_app(
                home,
                database,
                Controller(home, database, placement),
                placement,
                inventory=lambda: discover(home),
                poke=lambda: None,
                url="http://127.0.0.1:8081",
                started_at=0,
            )
            return app.openapi()
        finally:
            database.close()
