"""The choice of a replica by load and weight, as pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway.balancer import Loads, candidates, least_outstanding, two_choices
from outrider.gateway.prefixes import PrefixIndex
from outrider.gateway.table import Endpoint, Replica, Revision

Row = tuple[int, int, int | None]


def endpoint(rows: Sequence[Row], weights: dict[int, float]) -> tuple[Endpoint, Loads]:
    """From (revision, requests in flight, capacity) per replica; each request has ten tokens outstanding."""
    replicas = tuple(
        Replica(f"r{index}", "tiny", revision, "http://h:1", None, capacity)
        for index, (revision, _, capacity) in enumerate(rows)
    )
    revisions = tuple(Revision(number, "d", weight) for number, weight in weights.items())
    made = Endpoint("tiny", "generate", 0, False, "ready", None, revisions, None, replicas)
    requests = {f"r{index}": load for index, (_, load, _) in enumerate(rows)}
    return made, Loads(requests, {name: load * 10 for name, load in requests.items()}, PrefixIndex())


def loaded(*tokens: int) -> tuple[tuple[Replica, ...], Loads]:
    """Replicas with so many outstanding tokens and no request counted."""
    replicas = tuple(Replica(f"r{index}", "tiny", 1, "http://h:1", None, None) for index in range(len(tokens)))
    return replicas, Loads({}, {f"r{index}": count for index, count in enumerate(tokens)}, PrefixIndex())


def free(replica: Replica, loads: Loads) -> bool:
    """Whether a replica is below its capacity."""
    return replica.capacity is None or loads.requests[replica.id] < replica.capacity


rows = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5), st.none() | st.integers(1, 5)), max_size=40)
shares = st.floats(0, 1, exclude_max=True)


@given(
    rows,
    st.dictionaries(st.integers(1, 3), st.sampled_from([0.0, 1.0, 99.0])),
    shares,
    st.sets(st.integers(0, 5)),
)
def test_candidates_have_room_one_revision_and_were_not_tried(
    rows: list[Row], weights: dict[int, float], share: float, tried: set[int]
) -> None:
    made, loads = endpoint(rows, weights)
    avoided = {f"r{index}" for index in tried}
    found = candidates(made, loads, share, tried=avoided)
    possible = [one for one in made.replicas if one.id not in avoided and free(one, loads)]
    assert all(one in possible for one in found)
    if len(weights) > 1:
        assert len({one.revision for one in found}) <= 1
    if not found:
        assert not [one for one in possible if weights.get(one.revision, 0) > 0]


@given(rows, st.integers())
def test_up_to_16_the_least_loaded_is_taken(rows: list[Row], seed: int) -> None:
    made, loads = endpoint(rows[:16], {1: 1})
    choice = least_outstanding(made.replicas, loads, Random(seed))
    assert (choice is None) == (not made.replicas)
    if choice is not None:
        assert loads.tokens[choice.id] == min(loads.tokens.values())


@given(st.lists(st.integers(0, 9), min_size=2, max_size=40), st.integers())
def test_two_choices_never_take_the_one_most_loaded(tokens: list[int], seed: int) -> None:
    among, loads = loaded(*tokens)
    choice = two_choices(among, loads, Random(seed))
    assert choice is not None
    if tokens.count(max(tokens)) == 1:
        assert loads.tokens[choice.id] < max(tokens)


def test_two_choices_draw_every_pair() -> None:
    among, loads = loaded(3, 2, 1)
    rng = Random(1)
    chosen = Counter(one.id for _ in range(3000) if (one := two_choices(among, loads, rng)))
    assert chosen["r0"] == 0
    assert chosen["r2"] / 3000 == pytest.approx(2 / 3, abs=0.03)


def test_beyond_16_two_are_drawn() -> None:
    among, loads = loaded(*range(40))
    rng = Random(1)
    chosen = {one.id for _ in range(300) if (one := least_outstanding(among, loads, rng))}
    assert len(chosen) > 10


def test_of_equal_tokens_the_fewest_requests() -> None:
    among, loads = loaded(5, 5, 5)
    choice = least_outstanding(among, loads._replace(requests={"r0": 2, "r1": 1, "r2": 2}), Random(1))
    assert choice is among[1]


def test_revisions_share_by_weight() -> None:
    made, loads = endpoint([(1, 0, None), (2, 0, None)], {1: 95, 2: 5})
    chosen = Counter(candidates(made, loads, index / 1000)[0].revision for index in range(1000))
    assert chosen == {1: 950, 2: 50}


def test_a_shift_of_weight_moves_only_what_it_must() -> None:
    before, loads = endpoint([(1, 0, None), (2, 0, None)], {1: 95, 2: 5})
    after, _ = endpoint([(1, 0, None), (2, 0, None)], {1: 90, 2: 10})
    draws = [index / 1000 for index in range(1000)]
    moved = [d for d in draws if candidates(before, loads, d)[0].revision != candidates(after, loads, d)[0].revision]
    assert len(moved) == 50


def test_revision_without_weight_serves_only_where_no_other_has_replicas() -> None:
    made, loads = endpoint([(1, 0, None), (2, 5, None)], {1: 0, 2: 100})
    assert {candidates(made, loads, index / 20)[0].revision for index in range(20)} == {2}
    full, loads = endpoint([(1, 0, None), (2, 5, 5)], {1: 0, 2: 100})
    assert not candidates(full, loads, 0.5)
    alone, loads = endpoint([(1, 0, None), (1, 0, None)], {1: 0, 2: 100})
    assert len(candidates(alone, loads, 0.5)) == 2


def test_ties_are_spread() -> None:
    among, loads = loaded(0, 0, 0, 0)
    rng = Random(1)
    chosen = Counter(one.id for _ in range(400) if (one := least_outstanding(among, loads, rng)))
    assert len(chosen) == 4 and min(chosen.values()) > 60


def test_many_replicas_full_but_one() -> None:
    made, loads = endpoint([(1, 3, 3)] * 40 + [(1, 2, 3)], {1: 100})
    assert [one.id for one in candidates(made, loads, 0.5)] == ["r40"]
