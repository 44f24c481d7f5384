"""What there is to run on."""

from __future__ import annotations

from pydantic import Field

from outrider.spec.base import SpecModel


class Gpu(SpecModel):
    """One GPU: its model name and memory in bytes."""

    name: str
    memory_bytes: int


class Inventory(SpecModel):
    """One machine as seen now. ``engines``: engine → installed version or None."""

    cores: int
    memory_bytes: int
    disk_free_bytes: int
    gpus: tuple[Gpu, ...] = ()
    engines: dict[str, str | None] = Field(default_factory=dict)
    cpu_model: str = "unknown"
    quota_enforced: bool = False
    placement: str = "local"
