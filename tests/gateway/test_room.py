"""The waiting room: bounded, and fair between keys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway.room import Room


def serve(room: Room[str]) -> list[str]:
    """Everybody, in turn."""
    order = []
    while (first := room.first) is not None:
        order.append(first)
        room.leave(first, served=True)
    return order


def test_keys_take_turns_however_many_requests_one_has() -> None:
    room: Room[str] = Room(100)
    for index in range(10):
        room.enter(f"busy{index}", "busy", 100)
    for index in range(2):
        room.enter(f"quiet{index}", "quiet", 100)
    assert serve(room)[:5] == ["busy0", "quiet0", "busy1", "quiet1", "busy2"]


def test_turns_are_by_tokens() -> None:
    room: Room[str] = Room(100)
    for index in range(4):
        room.enter(f"long{index}", "long", 300)
    for index in range(12):
        room.enter(f"short{index}", "short", 100)
    order = serve(room)
    for count in range(1, 4):
        upto = order[: order.index(f"long{count}")]
        assert sum(one.startswith("short") for one in upto) == 3 * count


def test_a_key_that_comes_late_has_no_credit_for_having_been_away() -> None:
    room: Room[str] = Room(100)
    for index in range(6):
        room.enter(f"a{index}", "a", 100)
    for _ in range(4):
        first = room.first
        assert first is not None
        room.leave(first, served=True)
    for index in range(3):
        room.enter(f"b{index}", "b", 100)
    assert serve(room) == ["b0", "a4", "b1", "a5", "b2"]


def test_same_key_first_come_first_served() -> None:
    room: Room[str] = Room(100)
    for index in range(5):
        room.enter(str(index), "", 10 - index)
    assert serve(room) == ["0", "1", "2", "3", "4"]


def test_full_room_puts_out_the_last_of_who_holds_most() -> None:
    room: Room[str] = Room(4)
    for index in range(4):
        assert room.enter(f"busy{index}", "busy", 1) is None
    assert room.enter("busy4", "busy", 1) == "busy4"
    assert room.enter("quiet0", "quiet", 1) == "busy3"
    assert room.enter("quiet1", "quiet", 1) == "busy2"
    assert room.enter("quiet2", "quiet", 1) == "quiet2"
    assert sorted(room.everybody()) == ["busy0", "busy1", "quiet0", "quiet1"]


def test_who_comes_back_stands_apart() -> None:
    room: Room[str] = Room(4)
    room.enter("new", "a", 1)
    room.enter("back", "a", 1, returned=True)
    assert room.returned == ("back",)
    assert room.first == "new"
    room.leave("back")
    assert len(room) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from(["enter", "serve", "leave", "return"]), st.sampled_from("abc"), st.integers(0, 50)),
        max_size=80,
    )
)
def test_nobody_is_lost_and_the_bound_holds(steps: list[tuple[str, str, int]]) -> None:
    room: Room[int] = Room(6)
    here: dict[int, str] = {}
    for number, (step, key, tokens) in enumerate(steps):
        if step in ("enter", "return"):
            out = room.enter(number, key, tokens, returned=step == "return")
            here[number] = key
            if out is not None:
                del here[out]
        elif step == "serve" and (first := room.first) is not None:
            room.leave(first, served=True)
            assert next(one for one in here if here[one] == here[first] and one not in room.returned) == first
            del here[first]
        elif step == "leave" and here:
            one = sorted(here)[tokens % len(here)]
            room.leave(one)
            del here[one]
        assert sorted(room.everybody()) == sorted(here)
        assert len(room) == len(here) <= 6
        assert (room.first is None) == (len(here) == len(room.returned))
