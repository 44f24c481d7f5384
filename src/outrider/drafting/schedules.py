"""Learning-rate schedules: a factor of the base rate for each step."""

from __future__ import annotations

import math
from typing import Literal

Schedule = Literal["cosine", "wsd", "constant"]


def factor(schedule: Schedule, step: int, steps: int, *, warmup: float, decay: float, floor: float) -> float:
    """The factor at ``step`` (from 0) of ``steps``.

    Args:
        schedule: ``cosine`` falls from the end of the warm-up on; ``wsd`` (warm-up, stable, decay) holds 1 and falls
            linearly over the last ``decay`` of the steps; ``constant`` holds 1.
        warmup: share of the steps over which the factor rises linearly from near 0 to 1.
        decay: share of the steps over which ``wsd`` falls.
        floor: the last factor, 0 to 1.
    """
    rising = max(1, round(warmup * steps))
    if step < rising:
        return (step + 1) / rising
    if schedule == "cosine":
        part = (step - rising) / max(1, steps - rising)
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, part)))
    if schedule == "wsd":
        falling = max(1, round(decay * steps))
        left = max(0, steps - step)
        return floor + (1 - floor) * min(1.0, left / falling)
    return 1.0
