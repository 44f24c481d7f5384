"""How far requests stay with replicas that have their prompts cached."""

from __future__ import annotations

from pydantic import Field

from outrider.spec.base import SpecModel
from outrider.spec.units import Seconds


class Routing(SpecModel):
    """Stickiness: a replica is returned to while it has at most ``prefill_rate`` × ``ttft_penalty`` outstanding tokens
    more than the least loaded one."""

    ttft_penalty: Seconds | None = Field(default=None, ge=0, le=600)
    """Seconds of waiting that a request may take on to reach a cached prefix; 0: load alone decides. None: the
    gateway's 0.5, a wait that people do not yet notice."""
    prefill_rate: float | None = Field(default=None, gt=0, lt=1e9)
    """Prompt tokens a second that one replica reads. None: the recipe's, where its curve has a TTFT, else the gateway's
    8,000."""
