"""One word for an endpoint's state, from its replicas. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from outrider.app.server import Stage

_RISING = (Stage.PENDING, Stage.PREPARING, Stage.STARTING, Stage.WARMING)


def summarise(*, running: bool, failed: bool, wanted: int, stages: Sequence[Stage]) -> str:
    """``ready`` when all wanted replicas are, ``degraded`` when some are; else the stage of the most advanced one.

    Args:
        running: whether replicas are wanted.
        failed: the wanted revision was given up and none serves.
        wanted: how many replicas.
        stages: of the replicas there are.
    """
    live = [stage for stage in stages if stage not in (Stage.STOPPED, Stage.FAILED)]
    if not running:
        return Stage.DRAINING.value if live else Stage.STOPPED.value
    ready = sum(stage is Stage.READY for stage in live)
    if ready >= wanted:
        return Stage.READY.value
    if ready:
        return "degraded"
    rising = [stage for stage in live if stage in _RISING]
    if failed and not rising:
        return Stage.FAILED.value
    return max(rising, key=_RISING.index).value if rising else Stage.PENDING.value
