"""``version``: which Outrider this is."""

from __future__ import annotations

from typing import Annotated

import typer

from outrider._version import __version__


def version(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Print the version."""
    print(f'{{"version": "{__version__}"}}' if as_json else f"outrider {__version__}")
