"""The JSON Schema says what the parser says, over a table of specs; the checked-in file is current."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from outrider.errors import InvalidSpec
from outrider.spec.documents import read_documents
from outrider.spec.endpoint import load_yaml
from outrider.spec.schema import DIALECT, endpoint_schema
from outrider.spec.units import SIZE_TEXT, SPAN_TEXT, parse_size, parse_span

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs/reference/endpoint.schema.json"
EXAMPLES = sorted((ROOT / "examples/endpoints").glob("*.y*ml"))
SCHEMA = endpoint_schema()
CHECK = Draft202012Validator(SCHEMA)


def _schema_takes(text: str) -> bool:
    return all(CHECK.is_valid(document) for document in read_documents(text))


def _parser_takes(text: str) -> bool:
    try:
        load_yaml(text)
    except InvalidSpec:
        return False
    return True


def test_the_file_is_current() -> None:
    assert json.loads(FILE.read_text()) == SCHEMA, "run: make schema"


def test_it_is_a_schema_of_the_dialect_it_names() -> None:
    assert SCHEMA["$schema"] == DIALECT
    Draft202012Validator.check_schema(SCHEMA)
    known = {"$schema", "$defs", "$ref", "title", "description", "default", "type", "properties", "required", "items"}
    known |= {"additionalProperties", "anyOf", "enum", "const", "pattern", "minLength", "maxLength"}
    known |= {"propertyNames", "maxProperties", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    assert _keywords(SCHEMA) <= known  # a keyword of no dialect, such as gt, checks nothing


def _keywords(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return set().union(*map(_keywords, schema)) if isinstance(schema, list) else set()
    found = set(schema)
    for key, inner in schema.items():
        if key in ("properties", "$defs"):
            found |= set().union(*map(_keywords, inner.values()))
        elif key not in ("default", "enum", "const", "required"):
            found |= _keywords(inner)
    return found


def test_every_field_is_described_in_one_line() -> None:
    for name, model in {"": SCHEMA, **SCHEMA["$defs"]}.items():
        for field, part in model.get("properties", {}).items():
            assert part.get("description"), f"{name}.{field}"
            assert "\n" not in part["description"]
            assert "``" not in part["description"]


ACCEPTED = """
model: org/name
model: path:/models/My File.gguf
{model: a/b, name: support-chat}
{model: a/b, name: null}
{model: a/b, task: embed}
{model: a/b, workload: {input_tokens: 3000, output_tokens: 100, rate: 0.5, structured_output: true}}
{model: a/b, objective: {ttft: 300ms, itl: 0.05, e2e: 1m30s, percentile: 99}}
{model: a/b, objective: {ttft: ' 2 S '}}
{model: a/b, objective: {ttft: null}}
{model: a/b, scaling: {min_replicas: 0, max_replicas: 4, scaledown_window: 10m, scaleup_window: 0}}
{model: a/b, scaling: {scaleup_window: 1h2m3s}}
{model: a/b, scaling: {scaleup_window: 1h3s}}
{model: a/b, scaling: {min_replicas: 2.0}}
{model: a/b, resources: {memory: 2GiB, cpu: 1.5, port: 8000, gpu: 'H200:2'}}
{model: a/b, resources: {memory: 2147483648}}
{model: a/b, resources: {memory: 1.5 gb}}
{model: a/b, resources: {memory: '512'}}
{model: a/b, resources: {gpu: RTX 4090}}
{model: a/b, regions: {routing: eu, compute: [eu-1, eu-2]}}
{model: a/b, drafter: off}
{model: a/b, drafter: ngram}
{model: a/b, drafter: false}
{model: a/b, drafter: hf:org/drafter}
{model: a/b, drafter: {source: path:/x.gguf}}
{model: a/b, drafter: {}}
{model: a/b, weights: 'hf:org/name@rev#file.gguf'}
{model: a/b, weights: 'package:x==1#y'}
{model: a/b, engine: llamacpp, recipe: r/llamacpp-cpu, profile: latency}
{model: a/b, flags: {slots: 4, x: true, y: 0.5, z: text}}
{model: a/b, unauthenticated: true, description: For people.}
""".strip().splitlines()

REFUSED = """
{}
{name: a}
{model: a/b, modle: x}
{model: ''}
{model: ' a/b'}
{model: 3}
{model: null}
{model: [a]}
{model: a/b, name: Not A Label}
{model: a/b, name: -a}
{model: a/b, name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}
{model: a/b, task: chat}
{model: a/b, task: null}
{model: a/b, workload: {input_tokens: 0}}
{model: a/b, workload: {tokens: 1}}
{model: a/b, workload: null}
{model: a/b, workload: 3}
{model: a/b, workload: {structured_output: 2}}
{model: a/b, objective: {ttft: 0}}
{model: a/b, objective: {ttft: 0ms}}
{model: a/b, objective: {ttft: 0h0m}}
{model: a/b, objective: {ttft: -1s}}
{model: a/b, objective: {ttft: 3 days}}
{model: a/b, objective: {ttft: ''}}
{model: a/b, objective: {ttft: true}}
{model: a/b, objective: {percentile: 100}}
{model: a/b, objective: {usd_per_hour: 0}}
{model: a/b, scaling: {min_replicas: -1}}
{model: a/b, scaling: {min_replicas: 1.5}}
{model: a/b, scaling: {max_replicas: 0}}
{model: a/b, scaling: {scaleup_window: -0.1}}
{model: a/b, scaling: {min_replica: 1}}
{model: a/b, resources: {memory: 2 elephants}}
{model: a/b, resources: {memory: 2G}}
{model: a/b, resources: {memory: 0GiB}}
{model: a/b, resources: {memory: 0}}
{model: a/b, resources: {memory: true}}
{model: a/b, resources: {startup_timeout: 0}}
{model: a/b, resources: {exit_grace_period: -1}}
{model: a/b, resources: {port: 0}}
{model: a/b, resources: {port: 65536}}
{model: a/b, resources: {port: true}}
{model: a/b, resources: {cpu: true}}
{model: a/b, resources: {gpu: 'H200:0'}}
{model: a/b, regions: {compute: eu}}
{model: a/b, regions: {compute: [1]}}
{model: a/b, drafter: never}
{model: a/b, drafter: true}
{model: a/b, drafter: null}
{model: a/b, drafter: 'hf:'}
{model: a/b, drafter: {sauce: off}}
{model: a/b, weights: org/name}
{model: a/b, weights: 'hf:'}
{model: a/b, engine: llama}
{model: a/b, profile: fast}
{model: a/b, flags: {slots: [4]}}
{model: a/b, flags: {slots: null}}
{model: a/b, flags: [slots]}
{model: a/b, unauthenticated: perhaps}
{model: a/b, description: null}
{model: a/b, $schema: x}
""".strip().splitlines()


@pytest.mark.parametrize("text", ACCEPTED)
def test_both_take_it(text: str) -> None:
    assert _parser_takes(text)
    assert _schema_takes(text)


@pytest.mark.parametrize("text", REFUSED)
def test_both_refuse_it(text: str) -> None:
    assert not _parser_takes(text)
    assert not _schema_takes(text)


@pytest.mark.parametrize(
    "text",
    [
        "{model: a/b, workload: {input_tokens: '12'}}",
        "{model: a/b, resources: {cpu: '2'}}",
        "{model: a/b, unauthenticated: 'yes'}",
        "{model: a/b, scaling: {min_replicas: true}}",
    ],
)
def test_what_only_the_parser_lets_pass(text: str) -> None:
    assert _parser_takes(text)
    assert not _schema_takes(text)


@pytest.mark.parametrize(
    "text",
    [
        "{model: a/b, scaling: {min_replicas: 3, max_replicas: 2}}",
        "{model: a/b, scaling: {min_replicas: 2}, resources: {port: 8000}}",
        '{model: "a\\u200b/b"}',
    ],
)
def test_what_only_the_parser_can_tell(text: str) -> None:
    assert not _parser_takes(text)
    assert _schema_takes(text)


@given(st.text("0123456789.kKmMgGtTiIbBsShHx \t-", max_size=8))
def test_quantities_as_text_are_the_same_to_both(text: str) -> None:
    assert bool(re.search(SIZE_TEXT, text)) == _reads(parse_size, text)
    assert bool(re.search(SPAN_TEXT, text)) == _reads(parse_span, text)


def _reads(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_examples_are_valid_and_name_the_schema(file: Path) -> None:
    first, text = file.read_text().splitlines()[0], file.read_text()
    named = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert named, "the line that editors look for comes first"
    assert (file.parent / named[1]).resolve() == FILE
    assert load_yaml(text)
    assert _schema_takes(text)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2
