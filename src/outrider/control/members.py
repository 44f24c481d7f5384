"""The replicas a controller knows: each with what was last seen of it, and what was decided about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from outrider.app.server import Stage
from outrider.control.reconcile import Seen
from outrider.placement.base import Observation, Replica


@dataclass(slots=True)
class Member:
    """One replica. ``draining_since``, ``stopping_since`` and ``ready_since`` are UTC ms, None before."""

    replica: Replica
    observation: Observation = field(default_factory=lambda: Observation(True, None, None))
    draining_since: int | None = None
    stopping_since: int | None = None
    ready_since: int | None = None

    @property
    def id(self) -> str:
        """The replica's id."""
        return self.replica.spec.id

    @property
    def endpoint(self) -> str:
        """The endpoint it serves."""
        return self.replica.spec.endpoint

    @property
    def stage(self) -> Stage:
        """What its runner last said; ``draining`` as soon as that is decided, ``failed`` once it ended."""
        if not self.observation.alive:
            return Stage.STOPPED if self.stopping_since else Stage.FAILED
        if self.draining_since is not None:
            return Stage.DRAINING
        return self.observation.state.stage if self.observation.state else Stage.PENDING

    def seen(self, in_flight: int) -> Seen:
        """As :func:`~outrider.control.reconcile.reconcile` wants it."""
        state = self.observation.state
        return Seen(
            id=self.id,
            revision=self.replica.spec.revision,
            alive=self.observation.alive,
            stage=state.stage if state else Stage.PENDING,
            in_flight=in_flight,
            draining_since=self.draining_since,
            stopping_since=self.stopping_since,
        )

    def url(self) -> str | None:
        """Where the gateway sends requests, while it should."""
        state = self.observation.state
        ready = self.observation.alive and self.draining_since is None and state and state.stage is Stage.READY
        return state.engine_url if ready and state else None

    def view(self) -> dict[str, object]:
        """The replica as the API shows it."""
        state = self.observation.state
        return {
            "id": self.id,
            "endpoint": self.endpoint,
            "revision": self.replica.spec.revision,
            "stage": self.stage.value,
            "detail": state.detail if state else "",
            "progress": state.as_dict()["progress"] if state else None,
            "pid": self.replica.pid,
            "engine_url": state.engine_url if state else None,
            "since": state.since if state else self.replica.spec.created_at,
            "created_at": self.replica.spec.created_at,
        }


@dataclass(frozen=True, slots=True)
class Death:
    """Why a replica ended: ``message`` is one line, ``error`` a problem (RFC 9457), ``log`` its last lines."""

    message: str
    error: dict[str, object]
    log: list[str]


def death(observation: Observation) -> Death:
    """Read an ended replica's last words. Without an ``exit.json`` it was killed."""
    exit_record = observation.exit or {}
    log = list(exit_record.get("log") or observation.log)
    error = exit_record.get("error")
    if isinstance(error, dict):
        why = f": {error['detail']}" if error.get("detail") else ""
        return Death(f"{error['title']}{why}", error, log)
    message = str(exit_record.get("reason") or "The replica was killed")
    problem: dict[str, object] = {
        "code": "replica_failed",
        "title": message,
        "remedy": "Its last log lines are in this event.",
    }
    return Death(message, problem, log)
