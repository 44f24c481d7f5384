"""Where requests return to, and when they stop: pure functions over arbitrary loads."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway import prompt
from outrider.gateway.affinity import affine, by_key, by_prefix, share
from outrider.gateway.balancer import Loads
from outrider.gateway.demand import Demand, affinity_key, of
from outrider.gateway.prefixes import PrefixIndex
from outrider.gateway.table import Replica
from tests.gateway.client import chat, serving, table
from tests.gateway.standin import Standin
from tests.gateway.test_balancer import loaded

SLACK = 100
TEXT = "".join(chr(97 + index % 26) for index in range(5000))


def blocks(text: str) -> tuple[int, ...]:
    return prompt.chain(text, "tiny")


def named(loads: Loads, **changes: int) -> Loads:
    return loads._replace(tokens={**loads.tokens, **changes})


keys = st.none() | st.text(max_size=4)
fleets = st.lists(st.integers(0, 1000), min_size=1, max_size=40)


@given(fleets, keys, st.booleans(), st.integers(0, 300), st.integers())
def test_whoever_is_chosen_is_a_candidate_within_slack_of_the_least_loaded(
    tokens: list[int], key: str | None, seen: bool, slack: int, seed: int
) -> None:
    among, loads = loaded(*tokens)
    if seen:
        loads.prefixes.remember(blocks(TEXT), among[seed % len(among)].id)
    choice = affine(Demand(10, 10, key, blocks(TEXT)), among, loads, slack, Random(seed))
    assert choice in among
    if choice is not None and len(among) <= 16:
        assert loads.tokens[choice.id] <= min(tokens) + slack


@given(st.lists(st.integers(0, SLACK), min_size=1, max_size=16), st.text(min_size=1), st.integers())
def test_a_key_stays_while_its_replica_is_within_slack(tokens: list[int], key: str, seed: int) -> None:
    idle, nothing = loaded(*[0] * len(tokens))
    among, loads = loaded(*tokens)
    demand = Demand(affinity=key)
    assert by_key(demand, idle, nothing, SLACK, Random(seed)) == by_key(demand, among, loads, SLACK, Random(seed + 1))


def test_a_saturated_key_spills_to_one_second_replica_and_comes_back() -> None:
    among, loads = loaded(*[0] * 8)
    demand = Demand(affinity="conversation")
    home = by_key(demand, among, loads, SLACK, Random(1))
    assert home is not None
    seconds = {by_key(demand, among, named(loads, **{home.id: SLACK + 1}), SLACK, Random(seed)) for seed in range(20)}
    assert len(seconds) == 1 and home not in seconds
    assert by_key(demand, among, named(loads, **{home.id: SLACK}), SLACK, Random(1)) == home


@given(st.integers(2, 12), st.integers(0, 11))
def test_a_replica_that_leaves_moves_its_own_keys_only(count: int, leaves: int) -> None:
    among, loads = loaded(*[0] * count)
    gone = among[leaves % count]
    rest = [one for one in among if one != gone]
    moved = 0
    for index in range(400):
        demand = Demand(affinity=f"key-{index}")
        before = by_key(demand, among, loads, SLACK, Random(1))
        after = by_key(demand, rest, loads, SLACK, Random(1))
        assert before in (gone, after)
        moved += before != after
    assert abs(moved / 400 - 1 / count) < 0.12


def test_a_replica_that_comes_takes_an_equal_share() -> None:
    among, loads = loaded(*[0] * 9)
    moved = Counter(
        after.id
        for index in range(9000)
        if (after := by_key(Demand(affinity=f"key-{index}"), among, loads, SLACK, Random(1)))
    )
    assert all(800 < count < 1200 for count in moved.values()) and len(moved) == 9


def test_the_deepest_match_wins() -> None:
    among, loads = loaded(0, 0, 0)
    loads.prefixes.remember(blocks(TEXT[:1024]), "r1")
    loads.prefixes.remember(blocks(TEXT[:3000]), "r2")
    assert by_prefix(Demand(blocks=blocks(TEXT)), among, loads, SLACK, Random(1)) is among[2]
    crossed = TEXT[:1500] + "!" * 3500
    assert by_prefix(Demand(blocks=blocks(crossed)), among, loads, SLACK, Random(1)) is among[2]


def test_beyond_slack_the_next_shallower_match_then_the_least_loaded() -> None:
    among, loads = loaded(0, 50, SLACK + 1)
    loads.prefixes.remember(blocks(TEXT[:1024]), "r1")
    loads.prefixes.remember(blocks(TEXT), "r2")
    demand = Demand(blocks=blocks(TEXT))
    assert by_prefix(demand, among, loads, SLACK, Random(1)) is among[1]
    assert by_prefix(demand, among, named(loads, r1=SLACK + 1), SLACK, Random(1)) is among[0]


def test_of_several_that_were_sent_as_much_the_least_loaded() -> None:
    among, loads = loaded(30, 20, 0)
    for name in ("r0", "r1"):
        loads.prefixes.remember(blocks(TEXT), name)
    assert by_prefix(Demand(blocks=blocks(TEXT)), among, loads, SLACK, Random(1)) is among[1]


def test_a_saturated_key_goes_where_its_prompt_was_read() -> None:
    among, loads = loaded(*[0] * 8)
    demand = Demand(affinity="conversation", blocks=blocks(TEXT))
    home = affine(demand, among, loads, SLACK, Random(1))
    assert home is not None
    other = next(one for one in among if one != home)
    loads.prefixes.remember(demand.blocks, other.id)
    assert affine(demand, among, loads, SLACK, Random(1)) == home
    full = named(loads, **{home.id: SLACK + 1})
    assert affine(demand, among, full, SLACK, Random(1)) == other
    full = named(full, **{other.id: SLACK + 1})
    assert affine(demand, among, full, SLACK, Random(1)) not in (home, other, None)


def test_a_replica_that_is_gone_is_not_missed() -> None:
    among, loads = loaded(7, 3)
    loads.prefixes.remember(blocks(TEXT), "long-dead")
    assert by_prefix(Demand(blocks=blocks(TEXT)), among, loads, SLACK, Random(1)) is among[1]


def test_another_model_shares_no_prefix() -> None:
    assert not set(prompt.chain(TEXT, "tiny:a")) & set(prompt.chain(TEXT, "tiny:b"))


def test_a_conversation_stays_on_one_revision() -> None:
    rng = Random(1)
    assert len({share(Demand(affinity="a"), rng) for _ in range(20)}) == 1
    assert len({share(Demand(), rng) for _ in range(20)}) == 20
    assert 0 <= share(Demand(affinity="b"), rng) < 1


class TestPrefixIndex:
    def test_it_is_bounded_and_keeps_what_is_used(self) -> None:
        index = PrefixIndex(size=100)
        for number in range(1000):
            index.remember(blocks(TEXT), "used")
            index.remember([number], "once")
            assert len(index) <= 2 * (100 + len(blocks(TEXT)))
        assert next(index.owners(blocks(TEXT))) == (len(blocks(TEXT)), ("used",))
        assert not list(index.owners([0]))

    def test_it_names_the_latest_four(self) -> None:
        index = PrefixIndex()
        for name in ("a", "b", "c", "d", "b", "e"):
            index.remember([1], name)
        assert list(index.owners([1])) == [(1, ("e", "b", "d", "c"))]

    def test_depth_is_of_one_replica(self) -> None:
        index = PrefixIndex()
        index.remember([1, 2, 3], "a")
        index.remember([1, 2], "b")
        assert [index.depth([1, 2, 3, 4], name) for name in ("a", "b", "c")] == [3, 2, 0]

    @given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from("abcdefg")), max_size=60), st.integers(1, 30))
    def test_owners_are_distinct_and_known(self, sent: list[tuple[int, str]], size: int) -> None:
        index = PrefixIndex(size)
        for depth, name in sent:
            index.remember(range(depth), name)
            if depth:
                assert next(index.owners(range(depth)))[1][0] == name
        for _, owners in index.owners(range(7)):
            assert len(set(owners)) == len(owners) <= 4


class TestAffinityKey:
    def test_the_most_deliberate_one_wins(self) -> None:
        body = {"user": "u", "prompt_cache_key": "p"}
        assert affinity_key(b"h", body) == "h"
        assert affinity_key(None, body) == "p"
        assert affinity_key(b"", {"user": "u"}) == "u"
        assert affinity_key(None, {}) is None

    def test_what_is_no_text_is_absent(self) -> None:
        assert affinity_key(None, {"prompt_cache_key": 7, "user": ""}) is None

    def test_a_long_one_is_cut(self) -> None:
        assert affinity_key(None, {"user": "x" * 10_000}) == "x" * 512


def test_expected_output_is_bounded_by_max_tokens() -> None:
    assert of(max_tokens=3).output_tokens == 3
    assert of(max_tokens=100_000).output_tokens == of().output_tokens == 256
    assert of(max_tokens=-5).output_tokens == 0


def test_replicas_with_equal_ids_hash_alike_in_every_process() -> None:
    replicas = [Replica(name, "tiny", 1, "http://h:1", None, None) for name in ("a", "b", "c")]
    loads = Loads({}, {}, PrefixIndex())
    chosen = [by_key(Demand(affinity=key), replicas, loads, 0, Random(1)) for key in ("k1", "k2", "k3", "k4")]
    assert [one.id for one in chosen if one] == ["b", "b", "a", "c"]


async def test_a_key_in_header_or_body_brings_requests_to_one_replica() -> None:
    async with Standin("a") as one, Standin("b") as two, Standin("c") as three:
        async with serving(table([one, two, three]), rng=Random(1)) as served:
            for _ in range(4):
                assert (await served.ask(chat("Outrider-Affinity-Key: session-1"))).status == 200
                assert (await served.ask(chat(prompt_cache_key="session-1"))).status == 200
                assert (await served.ask(chat(user="session-1"))).status == 200
        assert sorted(len(engine.asked) for engine in (one, two, three)) == [0, 0, 12]


async def test_without_any_key_a_prompt_returns_to_where_its_beginning_was_read() -> None:
    async with Standin("a") as one, Standin("b") as two, Standin("c") as three:
        async with serving(table([one, two, three]), rng=Random(1)) as served:
            for turn in range(1, 7):
                said = [{"role": "user", "content": TEXT[: 400 * turn]}]
                assert (await served.ask(chat(messages=said))).status == 200
            for _ in range(12):
                assert (await served.ask(chat())).status == 200  # too short to be cached: anywhere
        asked = sorted(len(engine.asked) for engine in (one, two, three))
        assert sum(asked) == 18 and asked[0] > 0
        turns = [sum(len(call.body) > 400 for call in engine.asked) for engine in (one, two, three)]
        assert sorted(turns) == [0, 0, 6]
