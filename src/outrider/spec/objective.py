"""What the user wants of the latency, and what it may cost."""

from __future__ import annotations

from pydantic import Field

from outrider.spec.base import SpecModel
from outrider.spec.units import Seconds


class Objective(SpecModel):
    """Service-level objective. Each bound is for the ``percentile`` of requests; None: not bounded."""

    ttft: Seconds | None = Field(default=None, gt=0)
    """Time from the request to the first content event, seconds. None: not bounded."""
    itl: Seconds | None = Field(default=None, gt=0)
    """Inter-token latency of a request, (last − first content event) ÷ (completion tokens − 1), seconds: the gap
    between events would be a whole verification step where a drafter speculates. None: not bounded."""
    e2e: Seconds | None = Field(default=None, gt=0)
    """Whole request at the workload's output length, seconds. None: not bounded."""
    percentile: float = Field(default=95.0, gt=0, lt=100)
    """Which percentile the bounds are for. 95: what users notice, without chasing outliers."""
    usd_per_hour: float | None = Field(default=None, gt=0)
    """Ceiling for the endpoint's machines, US dollars an hour. None: the cheapest that meets the bounds."""
