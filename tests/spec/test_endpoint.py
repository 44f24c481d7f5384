"""What a user declares: YAML and Python agree; a bad spec names every bad field."""

from __future__ import annotations

import pytest

from outrider.errors import InvalidName, InvalidSpec
from outrider.spec.endpoint import Endpoint, load_yaml, parse
from outrider.spec.names import check_name, name_for_model, nearest_name

YAML = """
model: org/Some.Model-7B
task: embed
scaling: {min_replicas: 2, scaledown_window: 10m}
resources: {memory: 2GiB, startup_timeout: 90s}
objective: {ttft: 300ms}
drafter: "off"
"""


def test_yaml_and_python_give_the_same() -> None:
    (spec,) = load_yaml(YAML)
    data = {
        "model": "org/Some.Model-7B",
        "task": "embed",
        "scaling": {"min_replicas": 2, "scaledown_window": 600},
        "resources": {"memory": 2**31, "startup_timeout": 90},
        "objective": {"ttft": 0.3},
        "drafter": {"source": "off"},
    }
    assert spec == parse(data)
    assert parse(spec.model_dump(mode="json")) == spec


def test_only_the_model_is_required() -> None:
    assert parse({"model": "org/Some.Model-7B"}).label == "some-model-7b"


def test_every_bad_field_is_named() -> None:
    bad = {
        "modle": "x",
        "task": "genrate",
        "scaling": {"min_replica": 1, "max_replicas": 0},
        "resources": {"memory": "2 elephants"},
        "drafter": "never",
        "name": "Not A Label",
    }
    with pytest.raises(InvalidSpec) as caught:
        parse(bad)
    found = {problem["field"]: problem for problem in caught.value.problems}
    assert set(found) >= {
        "model",
        "modle",
        "task",
        "scaling.min_replica",
        "scaling.max_replicas",
        "resources.memory",
        "drafter.source",
        "name",
    }
    assert found["modle"]["nearest"] == "model"
    assert found["task"]["nearest"] == "generate"
    assert found["scaling.min_replica"]["nearest"] == "min_replicas"
    assert "not-a-label" in found["name"]["message"]


@pytest.mark.parametrize("text", ["- a\n- b", "model: [unclosed", "just words", "model: 3"])
def test_bad_yaml_is_one_error(text: str) -> None:
    with pytest.raises(InvalidSpec):
        load_yaml(text)


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a.b", "a" * 41, "é", "a\n"])
def test_bad_names(name: str) -> None:
    with pytest.raises(InvalidName):
        check_name(name)


@pytest.mark.parametrize("model", ["org/Q_W.en", "path:/a/b/My File.gguf", "///", "x" * 200])
def test_a_name_is_always_found(model: str) -> None:
    assert check_name(name_for_model(model))


def test_nearest() -> None:
    assert nearest_name("My Chat!") == "my-chat"


def test_schema_describes_every_field() -> None:
    schema = Endpoint.model_json_schema()
    assert all(
        value.get("description") or "$ref" in value or "allOf" in value for value in schema["properties"].values()
    )
