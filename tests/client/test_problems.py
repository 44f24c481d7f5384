from __future__ import annotations

import inspect
import json

import pytest

from outrider import errors
from outrider.client.problems import rebuild
from outrider.errors import Conflict, EndpointNotFound, InvalidSpec, OutriderError, Problem

_KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, OutriderError)]


@pytest.mark.parametrize("kind", _KINDS, ids=lambda kind: kind.code)
def test_every_error_survives_the_wire(kind: type[OutriderError]) -> None:
    if kind is InvalidSpec:
        error: OutriderError = InvalidSpec("bad", [Problem(field="a.b", message="a.b: no")], remedy="correct it")
    else:
        error = kind("what", why="why", remedy="remedy", details={"log": ["x"], "n": 1})
    again = rebuild(json.loads(json.dumps(error.problem())))
    assert type(again) is kind
    assert again.problem() == error.problem()
    assert str(again) == str(error)


def test_an_invalid_spec_keeps_its_problems() -> None:
    error = InvalidSpec("bad", [Problem(field="a", message="a: no"), Problem(field="b", message="b: no")])
    again = rebuild(error.problem())
    assert isinstance(again, InvalidSpec)
    assert [problem["field"] for problem in again.problems] == ["a", "b"]


def test_a_code_of_a_newer_outrider_falls_back_to_its_status() -> None:
    error = rebuild({"code": "from_the_future", "status": 409, "title": "No"})
    assert type(error) is Conflict
    assert error.exit_code == 4


def test_the_code_counts_more_than_the_status() -> None:
    assert type(rebuild({"code": "endpoint_not_found", "status": 500, "title": "No"})) is EndpointNotFound


@pytest.mark.parametrize("problem", [{}, {"status": "x", "details": 3, "title": None}, {"code": ["a"], "status": 999}])
def test_anything_becomes_an_error(problem: dict[str, object]) -> None:
    error = rebuild(problem)
    assert type(error) is OutriderError
    assert error.what
