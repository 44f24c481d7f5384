"""Which paths exist: an allow-list, so that no engine's administrative path is reachable through the gateway.

An endpoint of task ``custom`` is a plain HTTP server that a ``serve.py`` starts: it has no ``model`` to route by, so it
is reached under ``/e/NAME/``, with any method and any path below; the prefix is taken off before the request goes on.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple
from urllib.parse import parse_qs


class Place(Enum):
    """What kind of answer a path gets."""

    INFERENCE = "inference"
    CUSTOM = "custom"
    MODELS = "models"
    HEALTH = "health"
    METRICS = "metrics"
    REALTIME = "realtime"


class Route(NamedTuple):
    """Where a path leads.

    Attributes:
        place: what answers.
        methods: what it may be asked with; empty for any.
        name: endpoint or model named in the path, or "".
        target: what goes on to the replica.
    """

    place: Place
    methods: frozenset[str]
    name: str
    target: str


_POST = frozenset({"POST"})
_GET = frozenset({"GET", "HEAD"})
_ANY: frozenset[str] = frozenset()

USAGE_ON_REQUEST = frozenset({"/v1/chat/completions", "/v1/completions"})
"""Paths whose streams carry usage only where ``stream_options.include_usage`` is set; the other APIs always send it."""

COUNTING = frozenset({"/v1/messages/count_tokens", "/v1/responses/input_tokens"})
"""Paths that count a prompt's tokens and generate nothing; both are of the vendors' own APIs."""

INFERENCE = frozenset({*USAGE_ON_REQUEST, *COUNTING, "/v1/embeddings", "/v1/responses", "/v1/messages"})
"""Paths that are routed by the ``model`` of their body."""

REALTIME = "/v1/realtime"
"""Path of the realtime API, a WebSocket, routed by the ``model`` of its query."""

_INFERENCE = {path: Route(Place.INFERENCE, _POST, "", path) for path in INFERENCE}
_OWN = {
    "/v1/models": Route(Place.MODELS, _GET, "", ""),
    "/healthz": Route(Place.HEALTH, _GET, "", ""),
    "/metrics": Route(Place.METRICS, _GET, "", ""),
}
_MODEL = "/v1/models/"
_CUSTOM = "/e/"


def match(target: str) -> Route | None:
    """Where a request target leads, or None where it leads nowhere. A query is kept only for custom servers."""
    route = _INFERENCE.get(target)
    if route is not None:
        return route
    path = target.partition("?")[0]
    if (route := _INFERENCE.get(path) or _OWN.get(path)) is not None:
        return route
    if path.startswith(_MODEL) and len(path) > len(_MODEL):
        return Route(Place.MODELS, _GET, path[len(_MODEL) :], "")
    if path == REALTIME:
        models = parse_qs(target.partition("?")[2]).get("model", [""])
        return Route(Place.REALTIME, _GET, models[0], target)
    if path.startswith(_CUSTOM):
        name, slash, rest = target[len(_CUSTOM) :].partition("/")
        name, mark, query = name.partition("?")
        return Route(Place.CUSTOM, _ANY, name, f"/{rest}" if slash else f"/{mark}{query}") if name else None
    return None
