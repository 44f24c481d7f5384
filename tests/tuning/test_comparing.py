"""Which setting is the best of several, where not all of them went through the same requests."""

from __future__ import annotations

import random

from outrider.spec.objective import Objective
from outrider.tuning.comparing import compare
from outrider.tuning.settings import Setting, present
from outrider.tuning.trial import Loaded, Outcome, Sample, Trial
from tests.tuning.world import job

STANDS = present(job().plan)
FAST, SLOW = (STANDS.with_flag("threads", count) for count in (2, 3))
CHEAP, DEAR = range(8), range(8, 16)
"""Requests; those of the second round take ten times as long under every setting."""


def trial(setting: Setting, numbers: range, cost: float, rung: int, turn: int) -> Trial:
    samples = tuple(Sample(n, cost, cost, cost * (10 if n in DEAR else 1), 1) for n in numbers)
    return Trial(setting, "threads", rung, turn, 1.0, Outcome((Loaded("chat", None, 1.0, 1.0, samples, None, 1, 1),)))


def test_the_best_is_found_over_the_requests_that_it_shares_with_what_stands() -> None:
    """The round of dear requests ended after the faster one's turn, so that its mean is the higher."""
    trials = [trial(one, CHEAP, cost, 0, turn) for one, cost in ((STANDS, 1.0), (FAST, 0.5), (SLOW, 0.9))
              for turn in (0, 1)]  # fmt: skip
    trials += [trial(STANDS, DEAR, 1.0, 1, 0), trial(FAST, DEAR, 0.5, 1, 0)]
    among = (STANDS, FAST, SLOW)
    found = compare("threads", STANDS, trials, among=among, objective=Objective(), rng=random.Random(1))
    assert found is not None and found.other == FAST and found.won
