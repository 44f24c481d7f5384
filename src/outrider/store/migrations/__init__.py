"""Migrations, in the order of their numbers.

Each module has ``upgrade(connection)`` and is never edited once released.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from sqlalchemy import Connection

_MODULES = {1: "m0001_initial", 2: "m0002_key_usage", 3: "m0003_drafters"}


def migrations() -> Mapping[int, Callable[[Connection], None]]:
    """Version → upgrade, in order."""
    return {version: import_module(f"{__name__}.{name}").upgrade for version, name in sorted(_MODULES.items())}
