"""How many replicas, and when that changes."""

from __future__ import annotations

from pydantic import Field, model_validator

from outrider.spec.base import SpecModel
from outrider.spec.units import Seconds


class Scaling(SpecModel):
    """Bounds and windows of the replica count."""

    min_replicas: int = Field(default=1, ge=0)
    """Floor. 1: the first request waits for nothing."""
    max_replicas: int | None = Field(default=None, ge=1)
    """Ceiling. None: the floor, so that nothing grows unasked."""
    buffer_replicas: int = Field(default=0, ge=0)
    """Idle replicas beyond demand. 0: they cost as much as busy ones."""
    target_concurrency: float | None = Field(default=None, gt=0)
    """Requests in flight a replica should hold. None: from the recipe's capacity curve."""
    max_concurrency: int | None = Field(default=None, ge=1)
    """Requests in flight a replica may hold; the gateway keeps further ones waiting. None: the engine's slots."""
    scaleup_window: Seconds = Field(default=30.0, ge=0)
    """Seconds of sustained demand before a replica is added. 30: a burst is no trend."""
    scaledown_window: Seconds = Field(default=300.0, ge=0)
    """Seconds of idleness before one is removed. 300: starting one costs more than keeping it."""

    @model_validator(mode="after")
    def _ordered(self) -> Scaling:
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            raise ValueError(f"max_replicas ({self.max_replicas}) must not be below min_replicas ({self.min_replicas})")
        return self
