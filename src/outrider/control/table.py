"""The routing table, made from what is wanted and what is seen. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from outrider.control.members import Member


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint as the gateway must know it.

    Attributes:
        revisions: (number, digest, weight in percent).
        capacity: most requests a replica may hold, or None.
        prefill_rate: prompt tokens a second that a replica reads, or None where the plan knows of no measurement.
        adapters: names of the LoRA adapters that the serving revision has.
    """

    name: str
    task: str
    created_at: int
    unauthenticated: bool
    state: str
    reason: str | None
    revisions: tuple[tuple[int, str, int], ...]
    capacity: int | None
    prefill_rate: float | None = None
    adapters: tuple[str, ...] = ()


def build(
    routes: Iterable[Route],
    members: Iterable[Member],
    keys: Iterable[Mapping[str, Any]],
    *,
    require_keys: bool,
) -> dict[str, Any]:
    """The table without its epoch and version, so that two equal ones compare equal."""
    listed = sorted(routes, key=lambda route: route.name)
    capacity = {route.name: route.capacity for route in listed}
    return {
        "require_keys": require_keys,
        "endpoints": [
            {
                "name": route.name,
                "task": route.task,
                "created": route.created_at // 1000,
                "unauthenticated": route.unauthenticated,
                "state": route.state,
                "reason": route.reason,
                "revisions": [
                    {"number": number, "digest": digest, "weight": weight} for number, digest, weight in route.revisions
                ],
                "max_concurrency": route.capacity,
                "adapters": list(route.adapters),
                "stickiness": {} if route.prefill_rate is None else {"prefill_rate": route.prefill_rate},
            }
            for route in listed
        ],
        "replicas": [
            {
                "id": member.id,
                "endpoint": member.endpoint,
                "revision": member.replica.spec.revision,
                "url": url,
                "key": member.replica.spec.key,
                "capacity": capacity.get(member.endpoint),
            }
            for member in sorted(members, key=lambda member: member.id)
            if (url := member.url()) is not None
        ],
        "keys": [dict(key) for key in keys],
    }
