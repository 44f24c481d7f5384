"""What the traffic looks like."""

from __future__ import annotations

from pydantic import Field

from outrider.spec.base import SpecModel


class Workload(SpecModel):
    """Lengths, load and shape of the traffic. What is left out is planned for as a chat."""

    input_tokens: int = Field(default=1024, ge=1)
    """Typical prompt, in tokens. 1,024: a chat with some history."""
    output_tokens: int = Field(default=256, ge=1)
    """Typical answer, in tokens. 256: some paragraphs."""
    concurrency: float | None = Field(default=None, gt=0)
    """Requests in flight at once over all replicas. None: the recipe's."""
    rate: float | None = Field(default=None, gt=0)
    """Arrivals a second over all replicas, for open-loop traffic; without a concurrency they are planned as the
    requests in flight that they come to. None: unknown."""
    shared_prefix_tokens: int = Field(default=0, ge=0)
    """Leading tokens that requests share (system prompt, tools). 0: none known; prefix caching is on anyway."""
    structured_output: bool = False
    """Most answers follow a JSON schema. False: grammar paths are warmed all the same."""
