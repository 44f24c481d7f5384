"""The words for what happens. Each event has a kind (for programs), a reason and a message (for people)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from outrider.store.events import Events

CONTROLLER_STARTED = "controller_started"
ENDPOINT_CREATED = "endpoint_created"
ENDPOINT_STARTED = "endpoint_started"
ENDPOINT_STOPPED = "endpoint_stopped"
ENDPOINT_FAILED = "endpoint_failed"
REVISION_CREATED = "revision_created"
REVISION_ACTIVE = "revision_active"
REVISION_FAILED = "revision_failed"
REPLICA_STARTED = "replica_started"
REPLICA_ADOPTED = "replica_adopted"
REPLICA_READY = "replica_ready"
REPLICA_DRAINING = "replica_draining"
REPLICA_STOPPED = "replica_stopped"
REPLICA_FAILED = "replica_failed"
REPLICA_KILLED = "replica_killed"


class Recorder:
    """Writes events with the controller's clock."""

    def __init__(self, events: Events, now: Callable[[], int]) -> None:
        self._events = events
        self._now = now

    def __call__(
        self,
        kind: str,
        message: str,
        *,
        endpoint: str | None = None,
        replica: str | None = None,
        revision: int | None = None,
        reason: str = "",
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Record that something happened, and why."""
        self._events.append(
            at=self._now(),
            endpoint=endpoint,
            replica=replica,
            revision=revision,
            kind=kind,
            reason=reason,
            message=message,
            data=data or {},
        )
