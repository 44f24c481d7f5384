"""``up``, ``down``, ``status``: the two processes. No other command touches processes of this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from outrider.cli.failures import show
from outrider.cli.terminal import say, say_pairs, show_json, show_table
from outrider.client.http import Client
from outrider.errors import UsageError
from outrider.spec.home import Home

if TYPE_CHECKING:
    from outrider.control.processes import Options, Started  # imported where used: it brings the store with it

PORT, API_PORT = 8080, 8081


def up(
    foreground: Annotated[bool, typer.Option(help="Stay, restart what dies, take down on Ctrl-C.")] = False,
    host: Annotated[str, typer.Option(help="Address of the gateway. Beyond loopback only with keys.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, envvar="OUTRIDER_PORT", help="Port of the gateway.")] = PORT,
    api_port: Annotated[
        int, typer.Option(min=1, max=65535, envvar="OUTRIDER_API_PORT", help="Port of the controller.")
    ] = API_PORT,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes of the gateway.")] = 1,
    tls_cert: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="PEM file: the gateway speaks TLS with it.")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="PEM file: the certificate's private key.")
    ] = None,
    renew: Annotated[
        bool,
        typer.Option("--renew-gateway", help="Replace a running gateway; requests in flight finish on the old one."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Start controller and gateway where they do not run."""
    from outrider.control.processes import Options, ensure_up, renew_gateway, supervise

    if (tls_cert is None) != (tls_key is None):
        raise UsageError("--tls-cert and --tls-key go together", remedy="Give both, or neither for plain HTTP.")
    home, options = Home.from_environment(), Options(host, port, api_port, workers, tls_cert, tls_key)
    if foreground:
        supervise(home, options, on_change=_say, on_trouble=lambda error: show(error, as_json=False))
        return
    started = (renew_gateway if renew else ensure_up)(home, options)
    if as_json:
        found = {"started": started.started, "already": started.already}
        show_json({**found, "gateway": started.gateway_url, "controller": started.api_url})
    else:
        _say(started)


def down(
    timeout: Annotated[float, typer.Option(min=0, help="Seconds until replicas are ended by force.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Drain and stop every replica, the gateway and the controller. Specs, revisions and cache stay."""
    from outrider.control.processes import take_down

    stopped = take_down(Home.from_environment(), timeout)
    if as_json:
        show_json({"stopped": stopped})
    else:
        say(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


def status(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show what is up."""
    with Client() as client:
        found = client.status()
        endpoints = client.endpoints()
    if as_json:
        show_json(found | {"items": endpoints})
        return
    gateway, controller = found["gateway"], found["controller"]
    say_pairs(
        [
            ("controller", f"{controller['url']} (pid {controller['pid']})"),
            ("gateway", f"{gateway['url'] or '–'} ({'connected' if gateway['connected'] else 'not connected'})"),
            ("home", str(controller["home"])),
            ("version", str(found["version"])),
        ]
    )
    say()
    rows = [(view["name"], view["state"], len(view["replicas"]), view["url"] or "–") for view in endpoints]
    show_table(("endpoint", "state", "replicas", "url"), rows, empty="no endpoints; make one: outrider endpoint create")


def start_if_needed(client: Client, *, quiet: bool) -> None:
    """Start this machine's Outrider unless it answers and its gateway is there, and say so."""
    if not client.local or (client.reachable() and client.status()["gateway"]["connected"]):
        return
    from outrider.control.processes import ensure_up

    options = _options_from_environment()
    if not quiet:
        say("Outrider is not running: starting outrider up", "bold")
    started = ensure_up(Home.from_environment(), options)
    if not quiet:
        _say(started)
        say("  end it with: outrider down", "dim")


def _options_from_environment() -> Options:
    from outrider.control.processes import Options

    return Options(port=_port("OUTRIDER_PORT", PORT), api_port=_port("OUTRIDER_API_PORT", API_PORT))


def _port(variable: str, default: int) -> int:
    text = os.environ.get(variable) or str(default)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise UsageError(f"{variable} is {text!r}", remedy="Give a port from 1 to 65535.")
    return int(text)


def _say(started: Started) -> None:
    urls = {"gateway": started.gateway_url, "controller": started.api_url}
    for words, names in (("started", started.started), ("already up", started.already)):
        for name in names:
            say(f"  {name:<10}  {words}, {urls[name]}")
