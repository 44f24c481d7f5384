"""The control loop: observe, reconcile, act, publish. The only module of the control plane with effects on replicas.

The controller may die at any time. Replicas and gateway go on; a restarted controller adopts the replicas it finds and
decides anew from the store. Nothing it holds in memory is needed to go on.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from outrider.app.server import Stage
from outrider.control import events, table
from outrider.control.events import Recorder
from outrider.control.link import GatewayLink
from outrider.control.measuring import Measuring
from outrider.control.members import Death, Member, death
from outrider.control.metering import Metering, spent
from outrider.control.reconcile import Activate, Drain, Kill, Remove, Seen, Start, Stop, Wanted, reconcile
from outrider.control.summary import summarise
from outrider.errors import OutriderError
from outrider.placement.base import Placement, ReplicaSpec
from outrider.spec.home import Home
from outrider.store.database import Database
from outrider.store.endpoints import EndpointRecord, Endpoints
from outrider.store.events import Events
from outrider.store.keys import KeyRecord, Keys
from outrider.store.revisions import RevisionRecord, Revisions
from outrider.store.usage import Used

_log = logging.getLogger(__name__)

_QUIET_INTERVAL = 1.0
_BUSY_INTERVAL = 0.1
"""Seconds between rounds: short while something is on its way, so that people see progress; else one second."""
_PROVEN_AFTER = 60_000
"""Milliseconds of readiness after which earlier failures are forgotten."""


class Controller:
    """Reconciles every endpoint of one home.

    Args:
        home: where revisions are written for runners to read.
        database: desired state.
        placement: where replicas run.
        now: UTC ms.
        new_id: replica ids.
    """

    def __init__(
        self,
        home: Home,
        database: Database,
        placement: Placement,
        *,
        now: Callable[[], int] = lambda: int(time.time() * 1000),
        new_id: Callable[[], str] = lambda: secrets.token_hex(5),
    ) -> None:
        self._home = home
        self._placement = placement
        self._now = now
        self._new_id = new_id
        self._endpoints = Endpoints(database)
        self._revisions = Revisions(database)
        self._keys = Keys(database)
        self._record = Recorder(Events(database), now)
        self._members: dict[str, Member] = {}
        self._failures: dict[tuple[str, int], tuple[int, int]] = {}
        self._epoch = secrets.token_hex(8)
        self._version = 0
        self._published: dict[str, Any] | None = None
        self._poke = asyncio.Event()
        self._leaving = False
        self._metering = Metering(database)
        self._measuring = Measuring(self.members, self._revisions, now)
        self.link = GatewayLink(home.gateway_socket, on_wake=lambda _: self.poke(), on_records=self._take)

    async def run(self) -> None:
        """Adopt what is there and reconcile until :meth:`leave` was called and no replica is left."""
        await asyncio.to_thread(self._adopt)
        await self.link.start()
        measuring = asyncio.create_task(self._measuring.run())
        try:
            while not (self._leaving and not self._members):
                self._poke.clear()
                busy = await self._guarded_round()
                try:
                    await asyncio.wait_for(self._poke.wait(), _BUSY_INTERVAL if busy else _QUIET_INTERVAL)
                except TimeoutError:
                    continue
        finally:
            measuring.cancel()
            await self.link.close()
            await asyncio.to_thread(self._metering.flush)

    async def _guarded_round(self) -> bool:
        # A round that fails (an endpoint purged between two reads, a store that is busy) is told and made again: the
        # next one starts from what is seen then.
        try:
            return await self.round()
        except Exception:
            _log.exception("a round failed and is made again")
            return False

    def poke(self) -> None:
        """Do the next round now (from the event loop)."""
        self._poke.set()

    def leave(self) -> None:
        """Drain and stop every replica, then end. Desired state stays: the next ``up`` starts them again."""
        self._leaving = True
        self.poke()

    def members(self, endpoint: str | None = None) -> list[Member]:
        """The replicas known now."""
        return [m for m in list(self._members.values()) if endpoint is None or m.endpoint == endpoint]

    def stats(self, endpoint: str) -> dict[str, Any]:
        """What happened at an endpoint within the last minute (from the event loop)."""
        return self._measuring.stats(endpoint, self.link)

    def state(self, record: EndpointRecord, revision: RevisionRecord | None) -> str:
        """The endpoint's state in one word."""
        return summarise(
            running=record.desired == "running" and not self._leaving,
            failed=revision is None or revision.status == "failed",
            wanted=_count(revision),
            stages=[member.stage for member in self.members(record.name)],
        )

    def _take(self, records: Sequence[dict[str, Any]]) -> None:
        self._metering.take(records)
        self._measuring.take(records)

    async def round(self) -> bool:
        """One round; True while something is on its way."""
        await self._observe()
        records = await asyncio.to_thread(self._endpoints.list)
        known = {record.name for record in records}
        for record in records:
            await self._reconcile(record)
        for name in {member.endpoint for member in self._members.values()} - known:
            await self._act_all(name, Wanted(False, None, True, 0, 0), None)
        await asyncio.to_thread(self._publish, records)
        return any(member.stage is not Stage.READY for member in self._members.values())

    def _adopt(self) -> None:
        self._record(events.CONTROLLER_STARTED, "The controller started")
        for replica in self._placement.adopt():
            self._members[replica.spec.id] = Member(replica)
            self._record(
                events.REPLICA_ADOPTED,
                f"Replica {replica.spec.id} (pid {replica.pid}) was found running and adopted",
                endpoint=replica.spec.endpoint,
                replica=replica.spec.id,
                revision=replica.spec.revision,
            )

    async def _observe(self) -> None:
        members = list(self._members.values())
        found = await asyncio.gather(*(asyncio.to_thread(self._placement.observe, m.replica) for m in members))
        for member, observation in zip(members, found, strict=True):
            member.observation = observation
            ready = observation.state is not None and observation.state.stage is Stage.READY
            if ready and member.ready_since is None:
                member.ready_since = self._now()
                seconds = (member.ready_since - member.replica.spec.created_at) / 1000
                self._note(member, events.REPLICA_READY, f"Replica {member.id} is ready after {seconds:.1f} s")
            if ready and member.ready_since is not None and self._now() - member.ready_since > _PROVEN_AFTER:
                self._failures.pop((member.endpoint, member.replica.spec.revision), None)

    async def _reconcile(self, record: EndpointRecord) -> None:
        revision = await asyncio.to_thread(self._wanted_revision, record)
        usable = revision is not None and revision.status != "failed"
        failures, failed_at = self._failures.get((record.name, revision.number), (0, 0)) if revision else (0, 0)
        server = revision.declaration.get("server", {}) if revision else {}
        wanted = Wanted(
            running=record.desired == "running" and not self._leaving,
            revision=revision.number if revision is not None and usable else None,
            proven=revision is not None and revision.status == "active",
            count=_count(revision),
            grace=int(float(server.get("exit_grace_period", 30.0)) * 1000),
            failures=failures,
            failed_at=failed_at,
        )
        await self._act_all(record.name, wanted, revision)

    async def _act_all(self, name: str, wanted: Wanted, revision: RevisionRecord | None) -> None:
        seen: list[Seen] = [member.seen(self.link.in_flight(member.id)) for member in self.members(name)]
        for action in reconcile(wanted, seen, self._now()):
            match action:
                case Start():
                    if revision is not None:
                        await asyncio.to_thread(self._start, name, revision)
                case Activate():
                    await asyncio.to_thread(self._activate, name, action.revision)
                case Drain(replica_id, reason):
                    member = self._members[replica_id]
                    member.draining_since = self._now()
                    self._note(member, events.REPLICA_DRAINING, f"Replica {replica_id} is draining", reason)
                case Stop(replica_id):
                    member = self._members[replica_id]
                    member.stopping_since = self._now()
                    await asyncio.to_thread(self._placement.drain, member.replica)
                case Kill(replica_id, reason):
                    member = self._members[replica_id]
                    self._note(member, events.REPLICA_KILLED, f"Replica {replica_id} was killed", reason)
                    await asyncio.to_thread(self._placement.kill, member.replica)
                case Remove(replica_id):
                    await asyncio.to_thread(self._bury, self._members.pop(replica_id), wanted)

    def _start(self, name: str, revision: RevisionRecord) -> None:
        server = revision.declaration.get("server", {})
        spec = ReplicaSpec(
            id=self._new_id(),
            endpoint=name,
            revision=revision.number,
            source=self.materialise(revision),
            key=secrets.token_urlsafe(24),
            cpu=server.get("cpu"),
            created_at=self._now(),
        )
        try:
            member = Member(self._placement.start(spec))
        except OutriderError as error:
            self._failed(name, revision.number, Death(str(error), error.problem(), []), replica=spec.id)
            return
        self._members[spec.id] = member
        why = (
            "the endpoint wants it"
            if not self._failures.get((name, revision.number))
            else "it replaces one that failed"
        )
        self._note(member, events.REPLICA_STARTED, f"Replica {spec.id} was started (pid {member.replica.pid})", why)

    def materialise(self, revision: RevisionRecord) -> Path:
        """Write a revision's ``serve.py`` where runners read it; the same file every time."""
        path = self._home.revisions / revision.endpoint / str(revision.number) / "serve.py"
        if not path.exists() or path.read_text() != revision.source:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(revision.source)
        return path

    def _activate(self, name: str, number: int) -> None:
        for other in self._revisions.list(name):
            if other.status == "active" and other.number != number:
                self._revisions.set_status(name, other.number, "retired", reason=f"revision {number} replaced it")
        self._revisions.set_status(name, number, "active", reason=None)
        self._record(events.REVISION_ACTIVE, f"Revision {number} serves", endpoint=name, revision=number)

    def _bury(self, member: Member, wanted: Wanted) -> None:
        """An ended replica: expected, or a failure with its last words."""
        spec = member.replica.spec
        try:
            if member.draining_since is not None or not wanted.running:
                self._note(member, events.REPLICA_STOPPED, f"Replica {member.id} stopped")
            else:
                self._failed(member.endpoint, spec.revision, death(member.observation), replica=member.id)
        finally:
            self._placement.remove(member.replica)

    def _failed(self, name: str, number: int, cause: Death, *, replica: str) -> None:
        data = {"error": cause.error, "log": cause.log}
        common: dict[str, Any] = {"endpoint": name, "revision": number, "data": data}
        self._record(events.REPLICA_FAILED, f"Replica {replica} failed: {cause.message}", replica=replica, **common)
        count, _ = self._failures.get((name, number), (0, 0))
        self._failures[name, number] = (count + 1, self._now())
        revision = self._revisions.get(name, number)
        if revision.status != "new":
            return
        self._revisions.set_status(name, number, "failed", reason=cause.message)
        self._record(events.REVISION_FAILED, f"Revision {number} failed: {cause.message}", **common)
        earlier = [r.number for r in self._revisions.list(name) if r.status == "active"]
        if earlier:
            self._endpoints.set_revision(name, max(earlier), at=self._now())
        else:
            self._record(events.ENDPOINT_FAILED, f"{name} cannot start: {cause.message}", **common)

    def _wanted_revision(self, record: EndpointRecord) -> RevisionRecord | None:
        return None if record.revision is None else self._revisions.get(record.name, record.revision)

    def _publish(self, records: list[EndpointRecord]) -> None:
        used = self._metering.flush()
        keys = self._keys.list()
        content = table.build(
            [self._route(record) for record in records],
            self._members.values(),
            [_table_key(key, used.get(key.id, Used())) for key in keys if key.revoked_at is None],
            require_keys=bool(keys),  # the revoked count: revoking the last key must close the door, not open it
        )
        if content != self._published:
            self._published = content
            self._version += 1
            self.link.publish({"epoch": self._epoch, "version": self._version, **content})

    def _route(self, record: EndpointRecord) -> table.Route:
        revisions = self._revisions.list(record.name)
        serving = [r for r in revisions if r.status == "active"] or [
            r for r in revisions if r.number == record.revision
        ]
        wanted = next((r for r in revisions if r.number == record.revision), None)
        server = serving[-1].declaration.get("server", {}) if serving else {}
        engine = serving[-1].declaration.get("engine") if serving else None
        return table.Route(
            name=record.name,
            task=str((record.spec or {}).get("task") or "generate") if engine else "custom",
            created_at=record.created_at,
            unauthenticated=bool(server.get("unauthenticated")),
            state=self.state(record, wanted),
            reason=wanted.reason if wanted else None,
            revisions=tuple((r.number, r.digest, 100) for r in serving[-1:]),
            capacity=server.get("max_concurrency"),
            prefill_rate=((serving[-1].plan or {}) if serving else {}).get("prefill_rate"),
            adapters=tuple((engine or {}).get("adapters") or ()),
        )

    def _note(self, member: Member, kind: str, message: str, reason: str = "") -> None:
        spec = member.replica.spec
        self._record(kind, message, endpoint=spec.endpoint, replica=spec.id, revision=spec.revision, reason=reason)


def _count(revision: RevisionRecord | None) -> int:
    if revision is None:
        return 1
    return max(1, int(revision.declaration.get("server", {}).get("min_replicas", 1)))


def _table_key(key: KeyRecord, used: Used) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "hash": key.hash,
        "endpoints": key.endpoints,
        "scopes": list(key.scopes),
        "limits": spent(key.limits, used),
        "expires_at": key.expires_at,
    }
