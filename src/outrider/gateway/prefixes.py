"""Which replicas were lately sent a prompt that begins with a given block: bounded memory of who has what cached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

SIZE = 32_768
"""Blocks remembered at most twice (see :class:`PrefixIndex`): some 5 MB, a thousand long conversations."""

_OWNERS = 4
"""Replicas remembered for a block. More would serve only prompts so common that every replica has them anyway."""


class PrefixIndex:
    """Block hash → ids of the replicas last sent it, the latest first.

    The least recently used blocks are forgotten by generation: what is used is written into the young half, and when
    that is full it becomes the old half and the old one is dropped. So nothing is kept in order, and between ``size``
    and twice as many blocks are remembered. A replica that is gone is never offered by the table and ages out here.

    Args:
        size: blocks of one generation.
    """

    __slots__ = ("_old", "_size", "_young")

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._young: dict[int, tuple[str, ...]] = {}
        self._old: dict[int, tuple[str, ...]] = {}

    def __len__(self) -> int:
        """Blocks remembered, those in both generations twice."""
        return len(self._young) + len(self._old)

    def owners(self, blocks: Sequence[int]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """From the deepest known block up: how many leading blocks match, and who was sent them. Changes only."""
        young, old = self._young, self._old
        last: tuple[str, ...] = ()
        for depth in range(len(blocks), 0, -1):
            block = blocks[depth - 1]
            found = young.get(block) or old.get(block)
            if found is not None and found is not last:
                last = found
                yield depth, found

    def depth(self, blocks: Sequence[int], replica: str) -> int:
        """How many leading blocks a replica was sent before."""
        for depth, owners in self.owners(blocks):
            if replica in owners:
                return depth
        return 0

    def remember(self, blocks: Sequence[int], replica: str) -> None:
        """A replica was sent a prompt with these leading blocks."""
        fresh: tuple[str, ...] = (replica,)
        after = fresh
        before: tuple[str, ...] | None = None
        young, old = self._young, self._old
        for block in blocks:
            found = young.get(block)
            if found is not None and found is before is after:
                continue  # nothing to change, as for most blocks of a conversation that goes on
            found = found or old.get(block)
            if found is None:
                young[block] = fresh
                continue
            if found is not before:  # blocks of one prompt mostly share one tuple, and go on sharing it
                before = found
                others = [one for one in found if one != replica]
                after = found if found[0] == replica else (replica, *others[: _OWNERS - 1])
            young[block] = after
        if len(young) > self._size:
            self._old, self._young = young, {}
