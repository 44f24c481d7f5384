"""What counters rose by: of made pages, and of a recorded one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.engines.normalise import EngineMetrics, vllm
from outrider.telemetry.pages import STALE, Pages, Rise
from outrider.telemetry.stats import EngineStats
from tests import engines

RECORDED = Path(engines.__file__).with_name("recorded")
PAGE = vllm((RECORDED / "vllm-0.32.0-metrics.txt").read_text())


def page(generated: int) -> EngineMetrics:
    """One whose counters all tell how many tokens were generated."""
    return EngineMetrics(
        generated_tokens=generated,
        prompt_tokens=generated,
        cached_tokens=3 * generated,
        drafts=generated,
        accepted_tokens=generated // 2,
        accepted_by_position=(generated // 2,),
    )


@given(st.lists(st.tuples(st.integers(1, 90_000), st.integers(0, 100)), min_size=1))
def test_a_rise_reaches_back_to_the_last_page_before_the_window(steps: list[tuple[int, int]]) -> None:
    pages, now, total = Pages(), 0, 0
    kept: list[tuple[int, int]] = []
    for passed, more in steps:
        now, total = now + passed, total + more
        pages.add(page(total), now)
        kept.append((now, total))
    before = [seen for at, seen in kept if at <= now - 60_000]
    base = before[-1] if before else kept[0][1]
    rise = pages.rise(now)
    assert (rise.prompt_tokens, rise.cached_tokens) == (total - base, 3 * (total - base))
    assert rise.prefix_hit_rate == (0.75 if total > base else None)
    assert pages.latest(now) == page(total)


def test_a_single_page_says_what_is_now_and_not_what_happened() -> None:
    pages = Pages()
    pages.add(PAGE, 0)
    found = EngineStats.of([pages.latest(0)], [pages.rise(0)])
    assert (found.running, found.waiting, found.kv_usage) == (0, 0, 0.0)
    assert found.prefix_hit_rate is found.acceptance_length is found.generated_per_second is None
    assert found.ttft is not None and (found.ttft.count, found.ttft.p50) == (0, None)


def test_all_that_a_real_page_says() -> None:
    empty = EngineMetrics(
        generated_tokens=0, prompt_tokens=0, cached_tokens=0, drafts=0, accepted_tokens=0, ttft=PAGE.ttft
    )
    rise = Rise.between(empty, PAGE, 30.0)
    assert rise.generated_per_second == 264 / 30
    assert rise.acceptance_length == 1 + 64 / 23, "the bonus token counts"
    assert rise.acceptance_by_position == (21 / 23, 18 / 23, 14 / 23, 11 / 23)
    assert rise.prefix_hit_rate == 640 / 1238
    assert rise.ttft is not None and rise.ttft.count == 0
    assert rise.itl is None, "the earlier page did not have it"


def test_an_engine_that_restarted_begins_anew() -> None:
    pages = Pages()
    pages.add(page(1000), 0)
    pages.add(page(10), 1000)
    pages.add(page(16), 3000)
    assert pages.rise(3000).prompt_tokens == 6
    assert pages.rise(3000).generated_per_second == 3.0


def test_a_stale_page_says_nothing() -> None:
    pages = Pages()
    pages.add(page(1), 0)
    pages.add(page(2), 1000)
    assert pages.latest(1000 + STALE - 1) == page(2)
    assert pages.latest(1000 + STALE) is None
    assert pages.rise(1000 + STALE) == Rise()


def test_two_engines_together() -> None:
    one = Rise(generated_per_second=2.0, drafts=10, accepted_tokens=20, accepted_by_position=(9, 8, 3), ttft=PAGE.ttft)
    other = Rise(generated_per_second=3.0, drafts=30, accepted_tokens=20, accepted_by_position=(20,), ttft=PAGE.ttft)
    both = one.plus(other)
    assert both.generated_per_second == 5.0
    assert both.acceptance_length == 2.0
    assert both.acceptance_by_position == (29 / 40, 8 / 40, 3 / 40)
    assert both.ttft is not None and both.ttft.count == 20
    assert one.plus(Rise()) == Rise().plus(one) == one


def test_positions_are_unknown_where_one_of_two_does_not_tell_them() -> None:
    placed = Rise(drafts=10, accepted_tokens=20, accepted_by_position=(9, 8, 3))
    unplaced = Rise(drafts=10, accepted_tokens=10)
    assert placed.plus(unplaced).acceptance_by_position is None
    assert placed.plus(unplaced).acceptance_length == 2.5


@pytest.mark.parametrize("missing", [None, EngineMetrics()])
def test_what_one_engine_does_not_say_is_unknown_of_all(missing: EngineMetrics | None) -> None:
    found = EngineStats.of([EngineMetrics(running=3, waiting=0, kv_usage=0.5), missing], [Rise(), Rise()])
    assert found.running is found.waiting is found.kv_usage is None
    other = EngineMetrics(running=1, waiting=2, kv_usage=0.25)
    found = EngineStats.of([EngineMetrics(running=3, waiting=0, kv_usage=0.5), other], [Rise(), Rise()])
    assert (found.running, found.waiting, found.kv_usage) == (4, 2, 0.375)
