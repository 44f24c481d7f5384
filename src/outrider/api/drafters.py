"""``/drafters``: the registry, and which drafter drafts for which target."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from outrider.control.drafters import DrafterService, Used
from outrider.drafting.registry import shown
from outrider.errors import InvalidInput
from outrider.store.drafters import DrafterRecord


class NewDrafter(BaseModel):
    """A drafter to take in. ``reference``: ``path:``, ``hf:`` or ``outrider:``; ``name`` None: its own."""

    model_config = ConfigDict(extra="forbid")

    reference: str = Field(min_length=1)
    name: str | None = None


class Binding(BaseModel):
    """Whose drafter it becomes: an ``endpoint``'s target, or a ``target`` by model id, recipe id or reference."""

    model_config = ConfigDict(extra="forbid")

    endpoint: str | None = None
    target: str | None = None


def router(service: DrafterService) -> APIRouter:
    """The routes."""
    registry = service.registry
    routes = APIRouter(tags=["drafters"])

    @routes.get("/drafters")
    def list_drafters() -> dict[str, Any]:
        """All drafters, oldest first, and the targets of each."""
        targets = registry.targets()
        return {"items": [_view(record, targets) for record in registry.all()]}

    @routes.post("/drafters", status_code=201)
    def add_drafter(new: NewDrafter) -> dict[str, Any]:
        """Take a drafter into the registry and its weights into the cache. The same weights again change nothing."""
        return _view(registry.add(new.reference, new.name), registry.targets())

    @routes.post("/drafters:use")
    def add_and_use_drafter(new: NewDrafter, binding: Binding) -> dict[str, Any]:
        """Take a drafter in and bind it, or neither."""
        with service.taken(new.reference, new.name) as record:
            return _used(_use(service, record.name, binding))

    @routes.get("/drafters/{name}")
    def get_drafter(name: str) -> dict[str, Any]:
        """One drafter."""
        return _view(registry.get(name), registry.targets())

    @routes.delete("/drafters/{name}")
    def remove_drafter(name: str) -> dict[str, Any]:
        """Forget a drafter and its bindings. Its weights stay in the cache, so that what runs with it goes on."""
        return _view(registry.remove(name), {})

    @routes.post("/drafters/{name}:use")
    def use_drafter(name: str, binding: Binding) -> dict[str, Any]:
        """Bind a drafter to a target's weights. Plans with ``drafter: auto`` take it from then on; an endpoint that is
        named gets a new revision with it at once."""
        return _used(_use(service, name, binding))

    return routes


def _use(service: DrafterService, name: str, binding: Binding) -> Used:
    if binding.endpoint is not None and binding.target is None:
        return service.use_for_endpoint(name, binding.endpoint)
    if binding.target is not None and binding.endpoint is None:
        return service.use_for_target(name, binding.target)
    raise InvalidInput("A drafter is used for an endpoint or for a target", remedy="Give one of the two.")


def _used(used: Used) -> dict[str, Any]:
    return {
        "drafter": used.use.record.name,
        "target": used.use.target,
        "warnings": [shown(finding) for finding in used.use.warnings],
        "endpoint": used.endpoint,
        "revision": used.revision,
        "planned": used.planned,
        "reason": used.reason,
    }


def _view(record: DrafterRecord, targets: dict[str, list[str]]) -> dict[str, Any]:
    return asdict(record) | {"bound_to": targets.get(record.name, [])}
