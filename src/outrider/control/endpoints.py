"""What a user may do with an endpoint. Each call checks first, then changes the store in one transaction."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from outrider._version import __version__
from outrider.control import events
from outrider.control.controller import Controller
from outrider.control.describing import describe_source, digest
from outrider.control.events import Recorder
from outrider.errors import (
    Conflict,
    EndpointNotFound,
    InvalidInput,
    InvalidSource,
    ReplicaNotFound,
    RevisionNotFound,
    SourceEdited,
)
from outrider.recipes.bound import Bound
from outrider.recipes.library import load_catalog
from outrider.recipes.plan import Plan
from outrider.recipes.planner import plan
from outrider.recipes.proposal import Proposal, Standing, propose
from outrider.recipes.reading import facts_of_spec, files_of_spec
from outrider.recipes.render import render
from outrider.spec.endpoint import Endpoint
from outrider.spec.home import Home
from outrider.spec.inventory import Inventory
from outrider.spec.names import check_name
from outrider.store.database import Database
from outrider.store.endpoints import EndpointRecord, Endpoints, exists_already, require_generation
from outrider.store.events import EventRecord, Events
from outrider.store.revisions import RevisionRecord, Revisions


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A revision that could be: what it would change, and what would be stored."""

    proposal: Proposal
    spec: dict[str, Any]
    source: str
    declaration: dict[str, Any]


class EndpointService:
    """Create, change, stop, remove. Blocking; called from the API's threads.

    Args:
        inventory: looks at this machine; called at each plan.
        poke: makes the controller act now.
        gateway_url: where clients reach the gateway.
        bound: drafters of the registry, by what they are bound to.
    """

    def __init__(
        self,
        home: Home,
        database: Database,
        controller: Controller,
        *,
        inventory: Callable[[], Inventory],
        poke: Callable[[], None],
        gateway_url: Callable[[], str | None],
        bound: Callable[[], Bound] = dict,
        now: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._home = home
        self._database = database
        self._controller = controller
        self._inventory = inventory
        self._poke = poke
        self._gateway_url = gateway_url
        self._bound = bound
        self._now = now
        self._endpoints = Endpoints(database)
        self._revisions = Revisions(database)
        self._events = Events(database)
        self._record = Recorder(self._events, now)

    def plan(self, spec: Endpoint) -> Plan:
        """What would run, and why. Raises UnknownModel and what the planner raises."""
        catalog = load_catalog()
        return plan(spec, self._inventory(), catalog, facts_of_spec(spec), files_of_spec(spec, catalog, self._bound()))

    def put(
        self, name: str, spec: Endpoint, *, create: bool, expected: int | None = None, replace_source: bool = False
    ) -> None:
        """Make an endpoint, or give it a new spec (a new revision; none where nothing would change).

        Raises:
            EndpointExists: ``create`` and there is one.
            SourceEdited: it runs an edited file and not ``replace_source``.
            GenerationMismatch: it is at another generation than ``expected``.
        """
        candidate = self._candidate(name, spec, create=create, expected=expected, replace_source=replace_source)
        if candidate.proposal.action == "unchanged":
            return  # said before: PUT is idempotent, and a revision is a change
        self._commit(
            name,
            candidate.source,
            candidate.declaration,
            candidate.proposal.plan.model_dump(mode="json"),
            origin="planned",
            exists=candidate.proposal.action == "changed",
            values={"spec": candidate.spec, "source_edited": False},
            expected=expected,
        )

    def propose(
        self, name: str, spec: Endpoint, *, create: bool, expected: int | None = None, replace_source: bool = False
    ) -> Proposal:
        """What :meth:`put` would do; raises what it would raise, and changes nothing."""
        candidate = self._candidate(name, spec, create=create, expected=expected, replace_source=replace_source)
        return candidate.proposal

    def _candidate(
        self, name: str, spec: Endpoint, *, create: bool, expected: int | None, replace_source: bool
    ) -> _Candidate:
        spec = spec.model_copy(update={"name": check_name(name)})
        made = self.plan(spec)
        if made.obstacles:
            raise InvalidInput(
                f"{name} cannot start on this machine",
                why="; ".join(made.obstacles),
                remedy="Leave resources.gpu out, or plan only: outrider endpoint plan",
                details={"obstacles": list(made.obstacles)},
            )
        source = render(made, version=__version__)
        declaration = describe_source(source)
        existing = self._find(name)
        if create and existing is not None:
            raise exists_already(name)
        require_generation(name, expected, existing.generation if existing else None)
        if existing is not None and existing.source_edited and not replace_source:
            raise SourceEdited(
                f"{name} runs an edited serve.py",
                why="a new spec would overwrite it",
                remedy="Deploy the file again, or apply with --replace-source.",
            )
        wanted = digest(source, made.model_dump(mode="json"), declaration)
        standing = None if existing is None else self._standing(existing, wanted)
        proposal = propose(spec, made, source, standing)
        return _Candidate(proposal, spec.model_dump(mode="json"), source, declaration)

    def deploy(self, source: str, *, name: str | None = None, create: bool = True) -> str:
        """Make an edited ``serve.py`` the next revision; the endpoint's name (the App's unless given).

        Raises:
            InvalidSource: it cannot be read; nothing was changed. EndpointNotFound: absent and not ``create``.
        """
        declaration = describe_source(source)
        target = check_name(name or str(declaration["app"]))
        if name and name != declaration["app"]:
            raise InvalidSource(
                f"The file declares App({declaration['app']!r}), not {name!r}",
                remedy="Change the App's name in the file, or deploy it without --name.",
            )
        existing = self._find(target)
        if existing is None and not create:
            raise EndpointNotFound(f"No endpoint {target!r}", remedy="See them with: outrider endpoint list")
        self._commit(
            target,
            source,
            declaration,
            None,
            origin="deployed",
            exists=existing is not None,
            values={"source_edited": True},
        )
        return target

    def _standing(self, record: EndpointRecord, wanted: str) -> Standing:
        revision = None if record.revision is None else self._revisions.get(record.name, record.revision)
        return Standing(
            spec=record.spec,
            plan=revision.plan if revision else None,
            source=revision.source if revision else "",
            revision=record.revision,
            generation=record.generation,
            current=revision is not None and revision.digest == wanted and revision.status != "failed",
            edited=record.source_edited,
        )

    def _commit(
        self,
        name: str,
        source: str,
        declaration: dict[str, Any],
        made: dict[str, Any] | None,
        *,
        origin: str,
        exists: bool,
        values: dict[str, Any],
        expected: int | None = None,
    ) -> None:
        at = self._now()
        with self._database.begin() as connection:
            if not exists:
                self._endpoints.insert(name, values.get("spec"), at=at, connection=connection)
            number = self._revisions.append(
                name,
                digest=digest(source, made, declaration),
                source=source,
                plan=made,
                declaration=declaration,
                origin=origin,
                at=at,
                connection=connection,
            )
            changes = {**values, "revision": number, "desired": "running"}
            self._endpoints.update(name, at=at, expected=expected, connection=connection, **changes)
        if not exists:
            self._record(events.ENDPOINT_CREATED, f"{name} was created", endpoint=name)
        self._record(
            events.REVISION_CREATED, f"Revision {number} was {origin}", endpoint=name, revision=number, reason=origin
        )
        self._controller.materialise(self._revisions.get(name, number))
        self._poke()

    def rollback(self, name: str, number: int | None) -> None:
        """Make an earlier revision (default: the last one that served) the next one."""
        record = self._endpoints.get(name)
        served = [r for r in self._revisions.list(name) if r.status == "retired" and r.number != record.revision]
        if number is None and not served:
            raise RevisionNotFound(
                f"{name} has no earlier revision that served", remedy=f"See: outrider endpoint info {name}"
            )
        chosen = self._revisions.get(name, number if number is not None else served[-1].number)
        self._commit(
            name,
            chosen.source,
            chosen.declaration,
            chosen.plan,
            origin="rollback",
            exists=True,
            values={"source_edited": chosen.plan is None},
        )

    def stop(self, name: str) -> None:
        """Want no replicas; spec, revisions and cache stay."""
        self._set_desired(name, "stopped", events.ENDPOINT_STOPPED)

    def start(self, name: str) -> None:
        """Want replicas again; a failed revision gets another try."""
        record = self._endpoints.get(name)
        if record.revision is not None and self._revisions.get(name, record.revision).status == "failed":
            self._revisions.set_status(name, record.revision, "new", reason=None)
        self._set_desired(name, "running", events.ENDPOINT_STARTED)

    def _set_desired(self, name: str, desired: str, kind: str) -> None:
        if self._endpoints.get(name).desired != desired:
            self._endpoints.update(name, at=self._now(), desired=desired)
            self._record(kind, f"{name} is to be {desired}", endpoint=name)
        self._poke()

    def delete(self, name: str, *, purge: bool) -> None:
        """Remove an endpoint: its replicas are stopped; with ``purge`` its revisions and events are destroyed.

        Raises:
            Conflict: without ``purge``: only ``rm --purge`` destroys.
        """
        self._endpoints.get(name)
        if not purge:
            raise Conflict(
                f"{name} was not removed",
                why="removing destroys its revisions and events",
                remedy=f"Say so: outrider endpoint rm {name} --purge. To only stop it: outrider endpoint stop {name}",
            )
        self._endpoints.delete(name)
        self._events.delete(name)
        shutil.rmtree(self._home.revisions / name, ignore_errors=True)
        self._poke()

    def revisions(self, name: str) -> list[RevisionRecord]:
        """All revisions, oldest first."""
        self._endpoints.get(name)
        return self._revisions.list(name)

    def revision(self, name: str, number: str) -> RevisionRecord:
        """One revision by number, or ``current``."""
        record = self._endpoints.get(name)
        if number == "current" and record.revision is not None:
            return self._revisions.get(name, record.revision)
        if not number.isdecimal():
            raise RevisionNotFound(f"{name} has no revision {number!r}", remedy="Give a number, or: current")
        return self._revisions.get(name, int(number))

    def events(self, name: str | None, *, after: int, limit: int) -> list[EventRecord]:
        """Events of one endpoint, or of all."""
        return self._events.list(name, after=after, limit=limit)

    def view(self, name: str) -> dict[str, Any]:
        """One endpoint as the API shows it. Raises EndpointNotFound."""
        return self._view(self._endpoints.get(name))

    def views(self) -> list[dict[str, Any]]:
        """All endpoints."""
        return [self._view(record) for record in self._endpoints.list()]

    def engine(self, name: str) -> dict[str, str]:
        """``url`` and ``key`` of the engine behind the newest ready replica: what the gateway itself uses.

        Raises:
            ReplicaNotFound: none is ready.
        """
        self._endpoints.get(name)
        members = sorted(self._controller.members(name), key=lambda member: member.replica.spec.created_at)
        for member in reversed(members):
            if (url := member.url()) is not None:
                return {"url": url, "key": member.replica.spec.key}
        raise ReplicaNotFound(f"{name} has no ready replica", remedy=f"See: outrider endpoint info {name}")

    def stats(self, name: str) -> dict[str, Any]:
        """What happened at an endpoint within the last minute. In the event loop; an unknown one is one without."""
        return self._controller.stats(name)

    def _find(self, name: str) -> EndpointRecord | None:
        return next((record for record in self._endpoints.list() if record.name == name), None)

    def _view(self, record: EndpointRecord) -> dict[str, Any]:
        revision = None if record.revision is None else self._revisions.get(record.name, record.revision)
        made = (revision.plan if revision else None) or {}
        declaration: Mapping[str, Any] = revision.declaration if revision else {}
        engine = declaration.get("engine") or {}
        gateway = self._gateway_url()
        custom = not declaration.get("engine")
        return {
            "name": record.name,
            "model": made.get("model") or (record.spec or {}).get("model"),
            "task": "custom" if custom else (record.spec or {}).get("task", "generate"),
            "state": self._controller.state(record, revision),
            "reason": revision.reason if revision else None,
            "desired": record.desired,
            "generation": record.generation,
            "revision": revision and {"number": revision.number, "digest": revision.digest, "status": revision.status},
            "engine": engine.get("name") or made.get("engine"),
            "adapters": list(engine.get("adapters") or ()),
            "recipe": made.get("recipe"),
            "source_edited": record.source_edited,
            "source": str(self._path(revision)) if revision else None,
            "url": gateway and (f"{gateway}/e/{record.name}/" if custom else f"{gateway}/v1"),
            "replicas": [member.view() for member in self._controller.members(record.name)],
            "spec": record.spec,
            "created_at": record.created_at,
            "updated_at": record.updated_at,
        }

    def _path(self, revision: RevisionRecord) -> Path:
        return self._home.revisions / revision.endpoint / str(revision.number) / "serve.py"


def event_view(event: EventRecord) -> dict[str, Any]:
    """An event as the API shows it."""
    return asdict(event)
