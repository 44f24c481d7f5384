"""What one replica may use."""

from __future__ import annotations

from pydantic import Field

from outrider.spec.base import SpecModel
from outrider.spec.units import Bytes, Seconds


class Resources(SpecModel):
    """Resources of one replica."""

    gpu: str | None = None
    """Model and count, ``H200:1``. None: the planner's choice."""
    cpu: float | None = Field(default=None, gt=0)
    """Quota in cores, enforced by cgroup where one is writable. None: no quota."""
    memory: Bytes | None = Field(default=None, gt=0)
    """Bytes it may need (``2GiB``). None: computed from weights and context."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Fixed port of the engine. None: a free one, so that several replicas fit on one machine."""
    startup_timeout: Seconds = Field(default=600.0, gt=0)
    """Seconds from process start to ready, downloads not counted. 600: large weights from a slow disk."""
    exit_grace_period: Seconds = Field(default=30.0, ge=0)
    """Seconds for requests in flight when a replica stops. 30: a long answer at a slow pace."""
