"""The benchmark of resumed training: on a CPU a resumed run is a whole one, and the controls lie apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from benchmarks.drafter.resuming import Bench, Ended, apart, measured

from outrider.drafting import settings

from . import small_target


def _bench(**changed: Any) -> Bench:
    plain = {"shape": {"layers": 1, "mask_token": 2}, "steps": 4, "rows": 1, "width": 64, "anchors": 4}
    used = settings.parse(plain | {"precision": "fp32", "validate_every": 0, "save_every": 0} | changed)
    return Bench(small_target.target(), small_target.dataset(), used)


def test_a_resumed_run_is_a_whole_one_and_the_controls_are_not() -> None:
    found = measured(_bench(), 2)
    rows = {row["run"]: row for row in found["rows"]}
    assert rows["whole"]["high"] == rows["resumed"]["high"] == 0.0
    assert rows["whole"]["held_out"] == rows["resumed"]["held_out"]
    assert rows["without_optimizer"]["low"] > 0 and rows["other_seed"]["low"] > 0
    assert found["ratios"] == {}, "nothing is a multiple of no spread"


def test_distance_is_a_share_of_the_weights() -> None:
    one, other = Ended(torch.tensor([3.0, 4.0]), 1.0), Ended(torch.tensor([3.0, 3.0]), 1.0)
    assert apart(one, other) == pytest.approx(0.2)
