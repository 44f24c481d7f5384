from __future__ import annotations

from outrider.loadgen.profiles import Shape
from outrider.loadgen.prompts import Calibration, PromptWriter, calibrated


def test_calibration_finds_slope_and_template() -> None:
    found = calibrated((8, 42), (200, 282))
    assert found == Calibration(per_word=1.25, overhead=32.0)
    assert found.words(282) == 200
    assert found.words(1) == 1, "a prompt has a word at least"


def test_a_server_that_counts_nonsense_leaves_one_token_a_word() -> None:
    assert calibrated((8, 40), (200, 40)) == Calibration()


def test_requests_share_the_prefix_and_nothing_else() -> None:
    writer = PromptWriter(Calibration(), "salt")
    shape = Shape(100, 5, 60, "tools")
    (system, user), (system_again, other) = (writer.messages(shape, number) for number in (0, 1))
    assert system == system_again
    assert len(system["content"].split()) == 60
    assert len(user["content"].split()) == len(other["content"].split()) == 40
    assert user["content"].split()[:4] != other["content"].split()[:4]


def test_another_salt_shares_not_even_the_prefix() -> None:
    shape = Shape(100, 5, 60, "tools")
    first, second = (PromptWriter(Calibration(), salt).messages(shape, 0) for salt in ("a", "b"))
    assert first[0] != second[0]
    assert first[1] != second[1]
    assert first == PromptWriter(Calibration(), "a").messages(shape, 0)
