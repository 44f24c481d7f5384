"""The choice of a replica, as a pure function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway.balancer import choose, free, least_outstanding
from outrider.gateway.table import Endpoint, Replica, Revision


def endpoint(
    loads: Sequence[tuple[int, int, int | None]], weights: dict[int, float]
) -> tuple[Endpoint, dict[str, int]]:
    """From (revision, load, capacity) per replica."""
    replicas = tuple(
        Replica(f"r{index}", "tiny", revision, "http://h:1", None, capacity)
        for index, (revision, _, capacity) in enumerate(loads)
    )
    revisions = tuple(Revision(number, "d", weight) for number, weight in weights.items())
    made = Endpoint("tiny", "generate", 0, False, "ready", None, revisions, None, replicas)
    return made, {f"r{index}": load for index, (_, load, _) in enumerate(loads)}


rows = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 5), st.none() | st.integers(1, 5)), max_size=40)


@given(
    rows,
    st.dictionaries(st.integers(1, 3), st.sampled_from([0.0, 1.0, 99.0])),
    st.integers(),
    st.sets(st.integers(0, 5)),
)
def test_choice_has_room_and_was_not_tried(
    loads: list[tuple[int, int, int | None]], weights: dict[int, float], seed: int, tried: set[int]
) -> None:
    made, counted = endpoint(loads, weights)
    avoided = {f"r{index}" for index in tried}
    choice = choose(made, counted, Random(seed), tried=avoided)
    candidates = [one for one in made.replicas if one.id not in avoided and free(one, counted)]
    if choice is None:
        heavy = [one for one in candidates if weights.get(one.revision, 0) > 0]
        assert not heavy
    else:
        assert choice in candidates


@given(rows, st.integers())
def test_up_to_16_the_least_loaded_is_taken(loads: list[tuple[int, int, int | None]], seed: int) -> None:
    made, counted = endpoint(loads[:16], {1: 1, 2: 1, 3: 1})
    choice = least_outstanding(made.replicas, counted, Random(seed))
    room = [counted[one.id] for one in made.replicas if free(one, counted)]
    assert (choice is None) == (not room)
    if choice is not None:
        assert counted[choice.id] == min(room)


def test_revisions_share_by_weight() -> None:
    made, counted = endpoint([(1, 0, None), (2, 0, None)], {1: 95, 2: 5})
    rng = Random(1)
    chosen = Counter(one.revision for _ in range(4000) if (one := choose(made, counted, rng)))
    assert 0.035 < chosen[2] / 4000 < 0.065


def test_revision_without_weight_serves_only_where_no_other_has_replicas() -> None:
    made, counted = endpoint([(1, 0, None), (2, 5, None)], {1: 0, 2: 100})
    assert {one.revision for seed in range(20) if (one := choose(made, counted, Random(seed)))} == {2}
    alone, counted = endpoint([(1, 0, None), (1, 0, None)], {1: 0, 2: 100})
    assert choose(alone, counted, Random(1)) is not None


def test_ties_are_spread() -> None:
    made, counted = endpoint([(1, 0, None)] * 4, {1: 100})
    rng = Random(1)
    chosen = Counter(one.id for _ in range(400) if (one := choose(made, counted, rng)))
    assert len(chosen) == 4 and min(chosen.values()) > 60


def test_many_replicas_full_but_one() -> None:
    made, counted = endpoint([(1, 3, 3)] * 40 + [(1, 2, 3)], {1: 100})
    choice = choose(made, counted, Random(1))
    assert choice is not None and choice.id == "r40"
