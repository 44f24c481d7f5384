"""``/endpoints``: what runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Query, Request
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from outrider.api import logs
from outrider.control.endpoints import EndpointService, event_view
from outrider.errors import InvalidInput, ReplicaNotFound
from outrider.placement.base import Placement
from outrider.spec.endpoint import parse
from outrider.store.database import LARGEST
from outrider.store.revisions import RevisionRecord

_EVENT_POLL = 0.25


def router(service: EndpointService, placement: Placement) -> APIRouter:
    """The routes of endpoints, their revisions, replicas and events."""
    routes = APIRouter(tags=["endpoints"])
    _endpoint_routes(routes, service)
    _action_routes(routes, service)
    _revision_routes(routes, service)
    _replica_routes(routes, service, placement)
    return routes


def _endpoint_routes(routes: APIRouter, service: EndpointService) -> None:
    @routes.get("/endpoints")
    def list_endpoints() -> dict[str, Any]:
        """All endpoints."""
        return {"items": service.views()}

    @routes.get("/endpoints/{name}")
    def get_endpoint(name: str) -> dict[str, Any]:
        """One endpoint."""
        return service.view(name)

    @routes.put("/endpoints/{name}")
    def put_endpoint(
        name: str,
        spec: Annotated[dict[str, Any], Body()],
        create: bool = False,
        replace_source: bool = False,
        dry_run: bool = False,
        if_match: Annotated[str | None, Header()] = None,
    ) -> dict[str, Any]:
        """Make an endpoint or give it a new spec. Idempotent; ``If-Match`` takes the generation.

        With ``dry_run`` nothing is changed: the answer says what would be, field by field, with the plan and a unified
        diff of ``serve.py``.
        """
        if spec.get("name") not in (None, name):
            why = f"the path names {name!r}, the body {spec['name']!r}"[:200]
            raise InvalidInput("Two names for one endpoint", why=why, remedy="Leave the body's name out.")
        wanted, expected = parse({**spec, "name": name}), _generation(if_match)
        if dry_run:
            proposal = service.propose(name, wanted, create=create, expected=expected, replace_source=replace_source)
            return proposal.model_dump(mode="json")
        service.put(name, wanted, create=create, expected=expected, replace_source=replace_source)
        return service.view(name)

    @routes.delete("/endpoints/{name}", status_code=204)
    def delete_endpoint(name: str, purge: bool = False) -> Response:
        """Remove an endpoint with its revisions and events (``purge`` must be said)."""
        service.delete(name, purge=purge)
        return Response(status_code=204)


def _action_routes(routes: APIRouter, service: EndpointService) -> None:
    @routes.post("/endpoints/{name}:stop")
    def stop_endpoint(name: str) -> dict[str, Any]:
        """Drain and stop its replicas; keep everything else."""
        service.stop(name)
        return service.view(name)

    @routes.post("/endpoints/{name}:start")
    def start_endpoint(name: str) -> dict[str, Any]:
        """Start a stopped or failed endpoint."""
        service.start(name)
        return service.view(name)

    @routes.post("/endpoints/{name}:rollback")
    def rollback_endpoint(name: str, revision: Annotated[int | None, Body(embed=True)] = None) -> dict[str, Any]:
        """Make an earlier revision the next one (default: the last that served)."""
        service.rollback(name, revision)
        return service.view(name)

    @routes.post("/deployments")
    def deploy(source: Annotated[str, Body(embed=True)]) -> dict[str, Any]:
        """Deploy a ``serve.py`` under the name of its App."""
        return service.view(service.deploy(source))


def _revision_routes(routes: APIRouter, service: EndpointService) -> None:
    @routes.get("/endpoints/{name}/revisions")
    def list_revisions(name: str) -> dict[str, Any]:
        """All revisions, oldest first."""
        return {"items": [_revision(record) for record in service.revisions(name)]}

    @routes.post("/endpoints/{name}/revisions")
    def create_revision(name: str, source: Annotated[str, Body(embed=True)], create: bool = False) -> dict[str, Any]:
        """Deploy a ``serve.py`` to this endpoint."""
        service.deploy(source, name=name, create=create)
        return service.view(name)

    @routes.get("/endpoints/{name}/revisions/{number}")
    def get_revision(name: str, number: str) -> dict[str, Any]:
        """One revision, with its plan; ``current`` for the wanted one."""
        record = service.revision(name, number)
        return _revision(record) | {"plan": record.plan, "declaration": record.declaration}

    @routes.get("/endpoints/{name}/revisions/{number}/source", response_class=PlainTextResponse)
    def get_source(name: str, number: str) -> PlainTextResponse:
        """The ``serve.py`` of a revision, to the byte."""
        return PlainTextResponse(service.revision(name, number).source, media_type="text/x-python")


def _replica_routes(routes: APIRouter, service: EndpointService, placement: Placement) -> None:
    @routes.get("/endpoints/{name}/replicas")
    def list_replicas(name: str) -> dict[str, Any]:
        """Its replicas."""
        return {"items": service.view(name)["replicas"]}

    @routes.get("/endpoints/{name}/replicas/{replica}/logs", response_class=PlainTextResponse)
    async def get_logs(
        request: Request, name: str, replica: str, tail: Annotated[int, Query(ge=1, le=10_000)] = 200
    ) -> Response:
        """The last lines of a replica's log; ``latest`` for the newest replica. Where the client accepts server-sent
        events it goes on as the log grows, and with ``latest`` from one replica to the next."""

        def replicas() -> list[dict[str, Any]]:
            return list(service.view(name)["replicas"])

        follow = "text/event-stream" in request.headers.get("accept", "")
        chosen = logs.newest(await asyncio.to_thread(replicas), replica)
        if chosen is None and not (follow and replica == logs.LATEST):
            raise ReplicaNotFound(f"{name} has no replica {replica!r}", remedy=f"See: outrider endpoint info {name}")
        if follow:
            following = logs.Following(replicas, placement.follow, replica, tail)
            return StreamingResponse(logs.stream(following), media_type="text/event-stream")
        lines = await asyncio.to_thread(placement.log, str(chosen), tail)
        return PlainTextResponse("\n".join(lines or []) + "\n")

    @routes.get("/endpoints/{name}/engine")
    def get_engine(name: str) -> dict[str, str]:
        """Where a ready replica's engine itself listens, with its key: the way past the gateway, on its own host."""
        return service.engine(name)

    @routes.get("/endpoints/{name}/stats")
    async def get_stats(name: str) -> dict[str, Any]:
        """What happened within the last minute, of the endpoint and of each replica: what the gateway saw and what the
        engine says. Durations in seconds, shares from 0 to 1; what nobody knows is null."""
        await asyncio.to_thread(service.view, name)
        return service.stats(name)

    @routes.get("/endpoints/{name}/events", response_model=None)
    async def get_events(
        request: Request,
        name: str,
        after: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    ) -> dict[str, Any] | StreamingResponse:
        """What happened and why; a stream of server-sent events where the client accepts one."""
        await asyncio.to_thread(service.view, name)
        if "text/event-stream" in request.headers.get("accept", ""):
            return StreamingResponse(_follow(service, name, after), media_type="text/event-stream")
        found = await asyncio.to_thread(service.events, name, after=after, limit=limit)
        return {"items": [event_view(event) for event in found]}


async def _follow(service: EndpointService, name: str, after: int) -> AsyncIterator[str]:
    while True:
        for event in await asyncio.to_thread(service.events, name, after=after, limit=200):
            after = event.id
            yield f"id: {event.id}\nevent: {event.kind}\ndata: {json.dumps(event_view(event))}\n\n"
        await asyncio.sleep(_EVENT_POLL)


def _revision(record: RevisionRecord) -> dict[str, Any]:
    fields = ("number", "digest", "origin", "status", "reason", "created_at")
    view = {field: getattr(record, field) for field in fields}
    return view | {"weights": record.declaration.get("weights")}


def _generation(if_match: str | None) -> int | None:
    if if_match is None:
        return None
    text = if_match.strip().strip('"')
    if not text.isdecimal():
        raise InvalidInput(f"If-Match is no generation: {if_match!r}", remedy="Send the endpoint's generation.")
    return int(text)
