"""What one replica may use."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from outrider.spec.base import SpecModel
from outrider.spec.units import Bytes, Seconds

_GPU = r"[A-Za-z0-9][A-Za-z0-9 ._-]*(:[1-9][0-9]{0,3})?"


class Resources(SpecModel):
    """Resources of one replica."""

    gpu: str | None = Field(default=None, json_schema_extra={"pattern": f"^{_GPU}$"})
    """GPU model and count (``H200:1``). None: the planner's choice."""
    cpu: float | None = Field(default=None, gt=0)
    """Quota in cores, enforced by cgroup where one is writable. None: no quota, so that idle cores are used."""
    memory: Bytes | None = Field(default=None, gt=0)
    """Bytes it may need (``2GiB``); what needs more is refused. None: computed from weights, context and slots."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Fixed port of the engine. None: a free one, so that several replicas fit on one machine."""
    startup_timeout: Seconds = Field(default=600.0, gt=0)
    """Seconds from process start to ready, downloads not counted. 600: large weights from a slow disk."""
    exit_grace_period: Seconds = Field(default=30.0, ge=0)
    """Seconds for requests in flight when a replica stops. 30: a long answer at a slow pace."""

    @field_validator("gpu")
    @classmethod
    def _model_and_count(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(_GPU, value):
            raise ValueError("a GPU model and perhaps a count, like H200 or H200:2")
        return value

    @field_validator("cpu", "port", mode="before")
    @classmethod
    def _no_switch(cls, value: object) -> object:
        if isinstance(value, bool):
            raise ValueError("a number, not true or false")
        return value
