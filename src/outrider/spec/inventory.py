"""What there is to run on."""

from __future__ import annotations

from pydantic import Field

from outrider.spec.base import SpecModel


class Gpu(SpecModel):
    """One GPU."""

    name: str
    """Model, as its driver says it (``NVIDIA H200``)."""
    memory_bytes: int
    """All of its memory, bytes."""


class Inventory(SpecModel):
    """One machine as seen now."""

    cores: int
    """Cores this process may use (its affinity, not the machine's count)."""
    memory_bytes: int
    """Host memory this process may use, bytes: all of it, or what its cgroup allows where that is less."""
    disk_free_bytes: int
    """Free where the cache lies, bytes."""
    memory_bandwidth: float | None = None
    """Bytes a second that its cores read together, as measured. None: not measured; plans take a cautious figure."""
    gpus: tuple[Gpu, ...] = ()
    """One entry a GPU; empty: none was found."""
    engines: dict[str, str | None] = Field(default_factory=dict)
    """Engine → version installed in Outrider's own Python, or None. One with its own environment needs none."""
    cpu_model: str = "unknown"
    """As the kernel names it; a measurement means little without it."""
    quota_enforced: bool = False
    """Whether a cgroup can be written, so that ``resources.cpu`` binds."""
    placement: str = "local"
    """Who places replicas here: ``local`` is this machine alone."""
