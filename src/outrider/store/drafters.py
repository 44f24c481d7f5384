"""Drafters: what each was made from, how good it is, and which of them drafts for which target."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import delete, insert, select

from outrider.errors import DrafterExists, DrafterNotFound
from outrider.store.database import Database
from outrider.store.schema import drafter_bindings, drafters


@dataclass(frozen=True, slots=True)
class DrafterRecord:
    """One drafter. Its weights lie in the cache.

    Attributes:
        name: what people call it.
        sha256: digest of its directory, which the cache has it by.
        bytes: size of its directory.
        method: what an engine is told: ``dflash``, ``eagle3``, ….
        kind: the architecture within the method: ``dflash``, ``dflash2``, ….
        block_size: slots of a pass, the anchor included.
        parent: the drafter that its training started from; None: from nothing, or not known.
        target: of the model that it drafts for: ``name`` and ``sha256``, as far as they are known.
        data: ``manifest``, the digest of the manifest of its training data; None: not known.
        hyperparameters: of its training.
        modes, languages: that it was trained in; None: not known.
        max_context: tokens it was trained for.
        evaluation: what was measured of it.
        created_at: UTC ms.
    """

    name: str
    sha256: str
    bytes: int
    method: str
    kind: str
    block_size: int | None
    parent: str | None
    target: dict[str, Any]
    data: dict[str, Any] | None
    hyperparameters: dict[str, Any]
    modes: list[str] | None
    languages: list[str] | None
    max_context: int | None
    evaluation: dict[str, Any]
    created_at: int


class Drafters:
    """The tables of drafters and of their bindings. A target has one drafter, a drafter may have many targets."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> list[DrafterRecord]:
        """All, oldest first."""
        with self._database.begin() as connection:
            rows = connection.execute(select(drafters).order_by(drafters.c.created_at, drafters.c.name)).mappings()
            return [DrafterRecord(**row) for row in rows]

    def get(self, name: str) -> DrafterRecord:
        """One. Raises DrafterNotFound."""
        with self._database.begin() as connection:
            row = connection.execute(select(drafters).where(drafters.c.name == name)).mappings().one_or_none()
        if row is None:
            raise DrafterNotFound(f"No drafter {name!r}", remedy="See them with: outrider drafter list")
        return DrafterRecord(**row)

    def refuse_other(self, name: str, sha256: str) -> None:
        """Raises DrafterExists if there are other weights of that name."""
        for record in self.list():
            if record.name == name and record.sha256 != sha256:
                raise DrafterExists(
                    f"There is a drafter {name!r} already",
                    why=f"its weights are {record.sha256[:12]}…, these are {sha256[:12]}…",
                    remedy="Give this one another name: --name NAME",
                )

    def add(self, record: DrafterRecord) -> DrafterRecord:
        """Store one; what is stored. The same weights under the same name again are no change.

        Raises:
            DrafterExists: there are other weights of that name.
        """
        with self._database.begin() as connection:
            row = connection.execute(select(drafters).where(drafters.c.name == record.name)).mappings().one_or_none()
            if row is None:
                connection.execute(insert(drafters).values(**asdict(record)))
                return record
        self.refuse_other(record.name, record.sha256)
        return DrafterRecord(**row)

    def remove(self, name: str) -> DrafterRecord:
        """Forget one and its bindings; its weights stay in the cache. Raises DrafterNotFound."""
        record = self.get(name)
        with self._database.begin() as connection:
            connection.execute(delete(drafters).where(drafters.c.name == name))
        return record

    def bind(self, name: str, target: str, *, at: int) -> None:
        """Make a drafter that of a target, by the digest of the target's weights. Raises DrafterNotFound."""
        self.get(name)
        with self._database.begin() as connection:
            connection.execute(delete(drafter_bindings).where(drafter_bindings.c.target == target))
            connection.execute(insert(drafter_bindings).values(target=target, drafter=name, bound_at=at))

    def release(self, target: str) -> None:
        """A target has no drafter any more; nothing happens where it had none."""
        with self._database.begin() as connection:
            connection.execute(delete(drafter_bindings).where(drafter_bindings.c.target == target))

    def bindings(self) -> dict[str, DrafterRecord]:
        """Digest of a target's weights → its drafter."""
        query = select(drafter_bindings.c.target.label("bound_target"), drafters).join(drafters)
        with self._database.begin() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        return {row.pop("bound_target"): DrafterRecord(**row) for row in rows}
