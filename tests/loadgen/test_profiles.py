from __future__ import annotations

import itertools
import random
import statistics

import pytest

from outrider.loadgen.profiles import PROFILES, Profile


def test_the_profiles_as_published() -> None:
    assert PROFILES["realtime"].typical[:2] == (3000, 100)
    agentic = PROFILES["agentic"].typical
    assert (agentic.input_tokens, agentic.shared_prefix_tokens, agentic.output_tokens) == (50_000, 45_000, 200)


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("context", [512, 2048, 8192, 32_768, 131_072])
def test_every_request_fits_the_context(name: str, context: int) -> None:
    fitted = PROFILES[name].fitted(context)
    for shape in itertools.islice(fitted.shapes(random.Random(3)), 500):
        assert shape.input_tokens + shape.output_tokens <= context
        assert shape.shared_prefix_tokens < shape.input_tokens


def test_scaling_keeps_proportions_and_says_by_how_much() -> None:
    fitted = PROFILES["agentic"].fitted(8192)
    assert fitted.scale == pytest.approx(8192 * 0.95 / 50_200)
    assert fitted.shared / fitted.input == pytest.approx(9, rel=0.01)


def test_what_fits_is_left_alone() -> None:
    assert PROFILES["realtime"].fitted(8192) is PROFILES["realtime"]
    assert PROFILES["agentic"].fitted(None) is PROFILES["agentic"]


def test_lengths_are_log_normal_about_their_median() -> None:
    shapes = list(itertools.islice(Profile("x", 0, 1000, 100, spread=0.5).shapes(random.Random(5)), 5000))
    assert statistics.median(shape.input_tokens for shape in shapes) == pytest.approx(1000, rel=0.03)
    assert statistics.correlation(
        [shape.input_tokens for shape in shapes], [shape.output_tokens for shape in shapes]
    ) == pytest.approx(0, abs=0.05)
