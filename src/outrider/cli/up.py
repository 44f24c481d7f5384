"""``up``, ``down``, ``status``: the two processes. No other command touches processes of this machine."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from outrider.cli.terminal import console, show_json, show_table
from outrider.client.http import Client
from outrider.control.processes import Options, Started, ensure_up, supervise, take_down
from outrider.spec.home import Home


def up(
    foreground: Annotated[bool, typer.Option(help="Stay, restart what dies, take down on Ctrl-C.")] = False,
    host: Annotated[str, typer.Option(help="Address of the gateway. Beyond loopback only with keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the gateway.")] = 8080,
    api_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the controller.")] = 8081,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Start controller and gateway where they do not run."""
    home, options = Home.from_environment(), Options(host, port, api_port)
    if foreground:
        supervise(home, options, on_change=_say)
        return
    started = ensure_up(home, options)
    if as_json:
        show_json({"started": started.started, "gateway": started.gateway_url, "controller": started.api_url})
    else:
        _say(started)


def down(
    timeout: Annotated[float, typer.Option(min=0, help="Seconds until replicas are ended by force.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Drain and stop every replica, the gateway and the controller. Specs, revisions and cache stay."""
    stopped = take_down(Home.from_environment(), timeout)
    if as_json:
        show_json({"stopped": stopped})
    else:
        console.print(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show what is up."""
    with Client() as client:
        found = client.status()
        endpoints = client.endpoints()
    if as_json:
        show_json(found | {"items": endpoints})
        return
    gateway = found["gateway"]
    connected = "connected" if gateway["connected"] else "not connected"
    console.print(f"controller {found['controller']['url']} (pid {found['controller']['pid']})")
    console.print(f"gateway    {gateway['url'] or '–'} ({connected})")
    console.print(f"home       {found['controller']['home']}")
    show_table(("endpoint", "state", "replicas"), [(e["name"], e["state"], len(e["replicas"])) for e in endpoints])


def start_if_needed(client: Client, *, quiet: bool) -> None:
    """Start this machine's Outrider unless it answers, and say so."""
    if client.local and not client.reachable():
        if not quiet:
            console.print("Nothing runs yet: starting [bold]outrider up[/bold]")
        started = ensure_up(Home.from_environment(), _options_from_environment())
        if not quiet:
            _say(started)


def _options_from_environment() -> Options:
    return Options(
        port=int(os.environ.get("OUTRIDER_PORT") or 8080),
        api_port=int(os.environ.get("OUTRIDER_API_PORT") or 8081),
    )


def _say(started: Started) -> None:
    for name in started.started:
        url = started.gateway_url if name == "gateway" else started.api_url
        console.print(f"{name:<10} started, {url}")
    for name in started.already:
        url = started.gateway_url if name == "gateway" else started.api_url
        console.print(f"{name:<10} already up, {url}")
