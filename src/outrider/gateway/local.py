"""Answers that need no replica: models, health, metrics, and what went wrong before one was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import unquote

from outrider.errors import AccessDenied
from outrider.gateway import auth, responses
from outrider.gateway.call import Call
from outrider.gateway.responses import Response
from outrider.gateway.routes import INFERENCE, Place, Route
from outrider.gateway.table import Endpoint, Revision, Table
from outrider.metrics import exposition

if TYPE_CHECKING:
    from outrider.gateway.gateway import Gateway

_SHOWN = 5


_FORWARDED = (b"forwarded", b"x-forwarded-for", b"x-real-ip", b"via")


def answer(gateway: Gateway, route: Route, presented: bytes | None) -> Response:
    """``/v1/models``, or ``/healthz``, which is open, for probes."""
    if route.place is Place.HEALTH:
        return responses.ok(gateway.health())
    if route.place is Place.REALTIME:
        upgrade = (("upgrade", "websocket"),)
        return responses.error(426, "The realtime API is a WebSocket", code="upgrade_required", headers=upgrade)
    try:
        endpoints = auth.visible(gateway.table, presented, gateway.now())
    except AccessDenied as error:
        return responses.from_error(error)
    if not route.name:
        return responses.ok({"object": "list", "data": [one for endpoint in endpoints for one in _models(endpoint)]})
    for endpoint in endpoints:
        for model in _models(endpoint):
            if model["id"] == unquote(route.name):
                return responses.ok(model)
    return unknown_model(gateway.table, route.name, endpoints, custom=False)


async def numbers(gateway: Gateway, call: Call, presented: bytes | None, peer: str) -> Response:
    """``/metrics``, for whoever may see it.

    Args:
        gateway: asked.
        call: the request.
        presented: the secret it came with, or None.
        peer: address of who connected.
    """
    near = _loopback(peer) and not any(call.header(name) is not None for name in _FORWARDED)
    try:
        auth.check_scraper(gateway.table, presented, gateway.now(), near=near)
    except AccessDenied as error:
        return responses.from_error(error)
    return Response(200, (await gateway.all_numbers()).encode(), exposition.CONTENT_TYPE)


def unknown_model(table: Table, name: str, visible: Sequence[Endpoint], *, custom: bool) -> Response:
    """404 with the nearest endpoint, or adapter of an endpoint, among those the caller may see."""
    head, colon, adapter = name.partition(":")
    asked = next((endpoint for endpoint in visible if colon and endpoint.name == head), None)
    if asked is not None and not custom:
        return responses.error(404, _unknown_adapter(asked, adapter), code="adapter_not_found", param="model")
    names = [endpoint.name for endpoint in visible]
    nearest = table.nearest(name)
    if custom and name in names:
        message = f"Endpoint {name!r} is no custom server: send its name as 'model' to /v1/…"
    elif nearest in names:
        message = f"No endpoint {name[:200]!r}. Did you mean {nearest!r}?"
    elif names:
        more = ", …" if len(names) > _SHOWN else ""
        message = f"No endpoint {name[:200]!r}. There are: {', '.join(names[:_SHOWN])}{more}"
    else:
        message = f"No endpoint {name[:200]!r}, nor any other. Make one: outrider endpoint create --model MODEL"
    return responses.error(404, message, code="model_not_found", param=None if custom else "model")


def _unknown_adapter(endpoint: Endpoint, adapter: str) -> str:
    said = f"Endpoint {endpoint.name!r} has no adapter {adapter[:200]!r}"
    if not endpoint.adapters:
        return f"{said}, nor any other. Send {endpoint.name!r} as 'model'"
    folded = {name.lower(): name for name in endpoint.adapters}
    if close := get_close_matches(adapter[:200].lower(), folded, n=1, cutoff=0.5):
        return f"{said}. Did you mean '{endpoint.name}:{folded[close[0]]}'?"
    more = ", …" if len(endpoint.adapters) > _SHOWN else ""
    return f"{said}. There are: {', '.join(endpoint.adapters[:_SHOWN])}{more}"


def unknown_path(target: str) -> Response:
    """404 that says which paths there are."""
    there = ", ".join(sorted(INFERENCE))
    return responses.error(404, f"No such path: {target[:200]!r}. There are: {there}", code="unknown_path")


def wrong_method(method: str, route: Route) -> Response:
    """405 that says what is allowed."""
    allow = allowed(route)
    return responses.error(
        405, f"{method} is not allowed here; allowed: {allow}", code="method_not_allowed", headers=(("allow", allow),)
    )


def allowed(route: Route) -> str:
    """Methods of a route, as the ``Allow`` header has them."""
    return ", ".join(sorted({*route.methods, "OPTIONS"}))


def own_headers(request_id: str, revision: Revision | None, gateway: float, upstream: float, waited: float) -> bytes:
    """Header lines the gateway adds to an answer; durations in seconds, sent in milliseconds as far as known by now."""
    waiting = f", waiting;dur={waited * 1e3:.3f}" if waited else ""
    label = f"x-outrider-revision: {revision.label}\r\n" if revision is not None else ""
    timing = f"gateway;dur={gateway * 1e3:.3f}, upstream;dur={upstream * 1e3:.3f}{waiting}"
    return f"x-request-id: {request_id}\r\n{label}server-timing: {timing}\r\n".encode("latin-1")


def early_headers(request_id: str, waited: float) -> bytes:
    """The same for the head of a stream that still waits: which revision will serve it nobody knows yet."""
    return f"x-request-id: {request_id}\r\nserver-timing: waiting;dur={waited * 1e3:.3f}\r\n".encode("latin-1")


def _loopback(peer: str) -> bool:
    try:
        address = ip_address(peer.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _models(endpoint: Endpoint) -> list[dict[str, object]]:
    """The endpoint and its adapters in OpenAI's form; ``parent`` is what an adapter stands on, as vLLM lists it."""
    base = {"object": "model", "created": endpoint.created, "owned_by": "outrider"}
    own, *adapters = endpoint.models
    return [{"id": own, **base}, *({"id": name, **base, "parent": own} for name in adapters)]
