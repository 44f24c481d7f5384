"""What a user declares: YAML and Python agree; a bad spec names every bad field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    assert "Try 'not-a-label'" in found["name"]["message"]
    assert found["name"]["nearest"] == "not-a-label"
    assert "did you mean 'generate'" in found["task"]["message"]


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


KEYS = sorted(Endpoint.model_fields)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), JSON, max_size=5))
def test_any_data_is_a_spec_or_names_its_bad_fields(data: dict[str, Any]) -> None:
    try:
        spec = parse(data)
    except InvalidSpec as error:
        assert error.problems
        assert all(problem["field"] and problem["message"] and problem["allowed"] for problem in error.problems)
        unknown = {key or "''" for key in data if key not in KEYS}
        assert unknown <= {problem["field"] for problem in error.problems}
    else:
        assert parse(spec.model_dump(mode="json")) == spec


@given(st.text(max_size=80))
def test_any_text_is_specs_or_one_error(text: str) -> None:
    try:
        load_yaml(text)
    except InvalidSpec as error:
        assert error.problems


@given(st.text(min_size=1, max_size=300))
def test_every_model_makes_a_valid_name(model: str) -> None:
    assert check_name(name_for_model(model))


@pytest.mark.parametrize("word", ["off", "'off'", "{source: off}", "auto", "hf:org/drafter"])
def test_a_drafter_is_written_as_a_word(word: str) -> None:
    (spec,) = load_yaml(f"model: a/b\ndrafter: {word}")
    assert spec.drafter.source in ("off", "auto", "hf:org/drafter")
    assert ("off" in word) == (spec.drafter.source == "off")


def test_adapters_are_directories_by_name() -> None:
    (spec,) = load_yaml("model: a/b\nadapters: {polite: hf:org/lora@abc, Blunt-2: path:/l}")
    assert spec.adapters == {"polite": "hf:org/lora@abc", "Blunt-2": "path:/l"}


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ("{polite: lora}", "adapters.polite"),
        ("{polite: 'hf:org/lora#file'}", "adapters.polite"),
        ("{polite: 'package:x==1#y'}", "adapters.polite"),
        ("{'a:b': 'path:/l'}", "adapters"),
        ("{'': 'path:/l'}", "adapters"),
        ("[path:/l]", "adapters"),
    ],
)
def test_what_is_no_adapter_is_named(written: str, field: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        load_yaml(f"model: a/b\nadapters: {written}")
    assert [problem["field"] for problem in caught.value.problems] == [field]


def test_a_key_stands_once() -> None:
    with pytest.raises(InvalidSpec, match="'model' stands twice"):
        load_yaml("model: a/b\nmodel: c/d")


def test_every_document_is_checked() -> None:
    with pytest.raises(InvalidSpec) as caught:
        load_yaml("model: a/b\ntask: x\n---\nmodel: c/d\n---\nmdel: e/f")
    messages = [problem["message"] for problem in caught.value.problems]
    assert [m.partition(":")[0] for m in messages] == ["document 1", "document 3", "document 3"]


def test_fields_that_do_not_go_together() -> None:
    for bad in (
        {"scaling": {"min_replicas": 3, "max_replicas": 2}},
        {"resources": {"port": 80}, "scaling": {"min_replicas": 2}},
    ):
        with pytest.raises(InvalidSpec):
            parse({"model": "a/b", **bad})
