"""Counts shared by workers: each sees the sum, and nobody's row is another's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway.counts import Column, Counts

ids = st.sampled_from(["a-1-0", "a-1-1", "b-7-0", "ü"])


@given(st.lists(st.tuples(st.integers(0, 2), ids, st.sampled_from([1, -1])), max_size=40))
def test_every_worker_sees_the_sum(steps: list[tuple[int, str, int]]) -> None:
    counts = Counts(3, rows=8)
    columns = [Column(counts, worker) for worker in range(3)]
    expected: dict[str, int] = {}
    for worker, replica, amount in steps:
        columns[worker].add(replica, amount)
        expected[replica] = expected.get(replica, 0) + amount
        assert all(column[replica] == expected[replica] for column in columns)


def test_a_dead_worker_counts_for_nothing() -> None:
    counts = Counts(2, rows=8)
    one, other = Column(counts, 0), Column(counts, 1)
    one.add("r", 3)
    other.add("r", 1)
    counts.clear(0)
    assert other["r"] == 1


def test_replicas_beyond_the_rows_are_counted_by_each_worker_alone() -> None:
    counts = Counts(2, rows=2)
    one, other = Column(counts, 0), Column(counts, 1)
    for index in range(5):
        one.add(f"r{index}", 1)
    assert [one[f"r{index}"] for index in range(5)] == [1] * 5
    assert sum(other[f"r{index}"] for index in range(5)) == 2
