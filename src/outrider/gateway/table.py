"""The routing table: a full snapshot of who serves what, pushed by the controller, last good copy on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class InvalidTable(ValueError):
    """A table that cannot be used; the one before stays in force."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision that traffic may go to; ``weight`` is its share, relative to its siblings."""

    number: int
    digest: str
    weight: float

    @property
    def label(self) -> str:
        """As in ``x-outrider-revision``: number and the first 12 characters of the digest."""
        return f"{self.number}-{self.digest[:12]}"


@dataclass(frozen=True, slots=True)
class Replica:
    """A ready replica.

    Attributes:
        url: base URL of its engine, ``http://host:port``.
        key: what the engine asks for as a bearer token, or None.
        capacity: most requests in flight, or None for no bound.
    """

    id: str
    endpoint: str
    revision: int
    url: str
    key: str | None
    capacity: int | None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a key may use; None: no bound.

    Attributes:
        requests_per_minute: requests.
        tokens_per_minute: tokens of prompts and answers together.
        budget_tokens: tokens of prompts and answers in the key's whole life.
        spent_tokens: of the budget, as the controller has counted: it outlives this process.
    """

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    budget_tokens: int | None = None
    spent_tokens: int = 0

    @property
    def bounded(self) -> bool:
        """Whether there is any bound at all."""
        return (
            self.requests_per_minute is not None or self.tokens_per_minute is not None or self.budget_tokens is not None
        )


@dataclass(frozen=True, slots=True)
class Key:
    """An API key. The secret itself is nowhere: only its SHA-256 in hex."""

    id: str
    name: str
    hash: str
    endpoints: frozenset[str] | None
    scopes: frozenset[str]
    expires_at: int | None
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Stickiness:
    """How far an endpoint's traffic stays with replicas that have its prompts cached.

    Attributes:
        prefill_rate: prompt tokens a second that one replica reads. Default 8,000: about what an 8-billion-parameter
            model reads on one data-centre GPU; the smaller the machine, the smaller it should be set.
        ttft_penalty: seconds of waiting that a request may take on to reach a cached prefix. Default 0.5: it is what a
            prompt of 4,000 tokens costs at that rate, and people who wait for a first word do not yet notice it.
    """

    prefill_rate: float = 8000.0
    ttft_penalty: float = 0.5

    @property
    def slack(self) -> int:
        """Outstanding tokens by which a replica may exceed the least loaded one and still be returned to."""
        return int(self.prefill_rate * self.ttft_penalty)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A named endpoint with the replicas that are ready for it.

    Attributes:
        task: ``generate``, ``embed`` or ``custom`` (any HTTP server, reached under ``/e/NAME/``).
        created: unix seconds.
        unauthenticated: served without a key even where keys are required.
        state: what the controller says of it; ``stopped`` and ``failed`` are not waited for.
        reason: why it is in that state, or None.
        max_concurrency: capacity of a replica that names none.
        slack: outstanding tokens of :class:`Stickiness`.
        adapters: names of its LoRA adapters; each is asked for as ``NAME:ADAPTER``, which its replicas know.
        groups: the replicas by revision, in the order of their numbers, each with the revision's weight. Made once a
            table, since every request asks for it.
    """

    name: str
    task: str
    created: int
    unauthenticated: bool
    state: str
    reason: str | None
    revisions: tuple[Revision, ...]
    max_concurrency: int | None
    replicas: tuple[Replica, ...] = ()
    slack: int = Stickiness().slack
    adapters: tuple[str, ...] = ()
    groups: tuple[tuple[float, tuple[Replica, ...]], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        weights = {revision.number: max(0.0, revision.weight) for revision in self.revisions}
        members: dict[int, list[Replica]] = {}
        for replica in self.replicas:
            members.setdefault(replica.revision, []).append(replica)
        groups = tuple((weights.get(number, 0.0), tuple(members[number])) for number in sorted(members))
        object.__setattr__(self, "groups", groups)

    @property
    def models(self) -> tuple[str, ...]:
        """What a request's ``model`` may be: its name, and each adapter behind it."""
        return (self.name, *(f"{self.name}:{adapter}" for adapter in self.adapters))

    def revision(self, number: int) -> Revision | None:
        """The revision of that number, if it is in the table."""
        return next((revision for revision in self.revisions if revision.number == number), None)


@dataclass(frozen=True, slots=True)
class Table:
    """A snapshot. ``raw`` is the JSON object it came from, kept so that it can be saved as it was."""

    epoch: str = ""
    version: int = 0
    require_keys: bool = False
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    replicas: Mapping[str, Replica] = field(default_factory=dict)
    keys: Mapping[str, Key] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)

    def resolve(self, model: str) -> Endpoint | None:
        """The endpoint a request's ``model`` names; ``NAME:ADAPTER`` belongs to ``NAME`` where that has the adapter."""
        endpoint = self.endpoints.get(model)
        if endpoint is None and ":" in model:
            name, _, adapter = model.partition(":")
            endpoint = self.endpoints.get(name)
            if endpoint is not None and adapter not in endpoint.adapters:
                return None
        return endpoint

    def nearest(self, model: str) -> str | None:
        """The endpoint whose name is closest to what was asked for, also by the last part of ``org/model``."""
        names = list(self.endpoints)
        for spelling in (model.lower(), model.lower().rpartition("/")[2]):
            if close := get_close_matches(spelling[:200], names, n=1, cutoff=0.5):
                return close[0]
        return None

    def dump(self) -> str:
        """JSON that :func:`parse` reads back."""
        return json.dumps(self.raw)


EMPTY = Table()
"""Before any table was seen: knows nothing."""


def parse(data: Any) -> Table:
    """Read a table. Unknown fields are ignored, so that a newer controller can serve an older gateway.

    Raises:
        InvalidTable: a needed field is missing or of the wrong kind.
    """
    try:
        replicas = {entry["id"]: _replica(entry, data) for entry in data["replicas"]}
        return Table(
            epoch=str(data["epoch"]),
            version=int(data["version"]),
            require_keys=bool(data["require_keys"]),
            endpoints={entry["name"]: _endpoint(entry, replicas) for entry in data["endpoints"]},
            replicas=replicas,
            keys={entry["hash"]: _key(entry) for entry in data["keys"]},
            raw=data,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidTable(f"not a routing table: {type(error).__name__}: {error}") from error


def load(path: Path) -> Table:
    """Read a table from a file; an absent one gives :data:`EMPTY`.

    Raises:
        InvalidTable: the file is not a table.
        OSError: the file cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return EMPTY
    try:
        data = json.loads(text)
    except ValueError as error:
        raise InvalidTable(f"{path} is not JSON: {error}") from error
    return parse(data)


def save(table: Table, path: Path) -> None:
    """Write a table, 0600 because it holds the engines' keys, by atomic rename: a reader sees the old one or the new.

    Raises:
        OSError: the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(table.dump())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _endpoint(entry: Mapping[str, Any], replicas: Mapping[str, Replica]) -> Endpoint:
    limit = entry.get("max_concurrency")
    return Endpoint(
        name=str(entry["name"]),
        task=str(entry["task"]),
        created=int(entry["created"]),
        unauthenticated=bool(entry["unauthenticated"]),
        state=str(entry["state"]),
        reason=entry.get("reason"),
        revisions=tuple(
            Revision(int(item["number"]), str(item["digest"]), float(item["weight"])) for item in entry["revisions"]
        ),
        max_concurrency=None if limit is None else int(limit),
        replicas=tuple(replica for replica in replicas.values() if replica.endpoint == entry["name"]),
        slack=_stickiness(entry.get("stickiness") or {}).slack,
        adapters=tuple(str(name) for name in entry.get("adapters") or ()),
    )


def _stickiness(entry: Mapping[str, Any]) -> Stickiness:
    given = {name: float(entry[name]) for name in ("prefill_rate", "ttft_penalty") if entry.get(name) is not None}
    if any(not 0 <= value < 1e9 for value in given.values()):
        raise ValueError(f"stickiness {given}: not between 0 and 1e9")
    return Stickiness(**given)


def _replica(entry: Mapping[str, Any], data: Mapping[str, Any]) -> Replica:
    capacity = entry.get("capacity")
    if capacity is None:
        limits = (item.get("max_concurrency") for item in data["endpoints"] if item["name"] == entry["endpoint"])
        capacity = next(limits, None)
    url = str(entry["url"]).rstrip("/")
    if not url.startswith("http://") or urlsplit(url).port is None:
        raise ValueError(f"replica {entry['id']}: {url!r} is not http://HOST:PORT")
    key = entry.get("key")
    return Replica(
        id=str(entry["id"]),
        endpoint=str(entry["endpoint"]),
        revision=int(entry["revision"]),
        url=url,
        key=str(key) if key else None,
        capacity=None if capacity is None else int(capacity),
    )


def _key(entry: Mapping[str, Any]) -> Key:
    endpoints = entry.get("endpoints")
    return Key(
        id=str(entry["id"]),
        name=str(entry["name"]),
        hash=str(entry["hash"]),
        endpoints=None if endpoints is None else frozenset(endpoints),
        scopes=frozenset(entry["scopes"]),
        expires_at=entry.get("expires_at"),
        limits=_limits(entry.get("limits") or {}),
    )


def _limits(entry: Mapping[str, Any]) -> Limits:
    names = ("requests_per_minute", "tokens_per_minute", "budget_tokens", "spent_tokens")
    given = {name: int(entry[name]) for name in names if entry.get(name) is not None}
    if any(given.get(name, 1) < 1 for name in names[:2]):
        raise ValueError(f"limits {given}: less than one a minute")
    return Limits(**given)
