"""``deploy``: an edited ``serve.py`` becomes the next revision."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrider.cli.removing import remove_failed
from outrider.cli.terminal import say, show_json
from outrider.cli.text import unread
from outrider.cli.up import start_if_needed
from outrider.cli.waiting import wait_ready
from outrider.client.http import Client
from outrider.errors import InvalidSource, OutriderError


def deploy(
    file: Annotated[Path, typer.Argument(help="The serve.py.")],
    name: Annotated[str | None, typer.Option(help="Endpoint name; must be the App's.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait until it serves.")] = True,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait.")] = 3600.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Deploy a serve.py as the next revision of its endpoint; a new endpoint is made where there is none."""
    try:
        source = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSource(
            f"{file} cannot be read", why=unread(error), remedy="Give the path of a serve.py."
        ) from error
    with Client() as client:
        start_if_needed(client, quiet=as_json)
        before = {endpoint["name"] for endpoint in client.endpoints()}
        view = client.deploy(source, name)
        if wait:
            try:
                view = wait_ready(client, view, timeout=timeout, quiet=as_json)
            except OutriderError as error:
                if view["name"] not in before:
                    remove_failed(client, view["name"], error)
                raise
    if as_json:
        show_json(view)
    else:
        number = view["revision"]["number"]
        say(f"{view['name']} serves revision {number} at {view['url']}" if wait else f"revision {number} made")
