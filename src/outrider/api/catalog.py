"""``/plans``, ``/recipes`` and ``/nodes``: what would run, and on what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Body

from outrider.control.endpoints import EndpointService
from outrider.recipes.library import load_catalog
from outrider.spec.endpoint import parse
from outrider.spec.inventory import Inventory


def router(service: EndpointService, inventory: Callable[[], Inventory]) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["catalog"])

    @routes.post("/plans")
    def make_plan(spec: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        """What an endpoint of this spec would run, with every reason. Changes nothing."""
        return service.plan(parse(spec)).model_dump(mode="json")

    @routes.get("/recipes")
    def list_recipes() -> dict[str, Any]:
        """Every recipe known here."""
        return {"items": [recipe.model_dump(mode="json") for recipe in load_catalog().all()]}

    @routes.get("/recipes/{identifier:path}")
    def get_recipe(identifier: str) -> dict[str, Any]:
        """One recipe."""
        return load_catalog().get(identifier).model_dump(mode="json")

    @routes.get("/nodes")
    def list_nodes() -> dict[str, Any]:
        """The machines that replicas can run on."""
        return {"items": [inventory().model_dump(mode="json")]}

    return routes
