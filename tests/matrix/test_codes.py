"""Every documented code stands in the matrix, or here with the reason why it does not."""

from __future__ import annotations

from tests.matrix import (
    test_cli,
    test_datasets,
    test_drafters,
    test_environment,
    test_gateway,
    test_recipes,
    test_rest,
    test_source,
    test_weights,
    test_yaml,
)
from tests.matrix.refusal import KINDS

_EXEMPT = {
    "internal": "a defect of ours: tests/cli/test_main.py breaks a controller's answer to see one",
    "access_denied": "only a family: each refusal is one of its members",
    "weights_fault": "only a family",
    "replica_fault": "only a family",
}
_AREAS = (
    test_cli.CASES,
    test_datasets.CASES,
    test_drafters.CASES,
    test_environment.CASES,
    test_rest.CASES,
    test_rest.ACCESS,
    test_source.CASES,
    test_weights.CASES,
    test_yaml.CASES,
)


def test_every_code_is_met() -> None:
    met = {
        word for area in _AREAS for case in area.values() for word in case if isinstance(word, str) and word in KINDS
    }
    met.add("invalid_recipe")  # of every case of test_recipes
    assert met | _EXEMPT.keys() == KINDS.keys()
    assert not met & _EXEMPT.keys()


def test_the_matrix_is_large() -> None:
    assert sum(len(area) for area in _AREAS) + len(test_recipes.CASES) + len(test_gateway.CASES) >= 300
