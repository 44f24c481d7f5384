"""Bad specs in YAML, as ``endpoint create -f`` meets them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.e2e.outrider_process import MODEL
from tests.matrix.bad_files import LAUGHS
from tests.matrix.house import House, command
from tests.matrix.refusal import Refusal, check_refusal


class Case(NamedTuple):
    """A spec's text and a word of the refusal."""

    text: str
    says: str
    code: str = "invalid_spec"


def _of(text: str, says: str) -> Case:
    return Case(f"model: {MODEL}\nname: fresh\n{text}\n", says)


CASES = {
    "an objective that nothing meets": _of("objective:\n  ttft: 1ms", "ttft")._replace(code="objective_unreachable"),
    "no YAML": Case("model: [a", "line 1"),
    "a tab": Case("model: a\n\tname: b", "line 2"),
    "a list": Case("- model: a", "a mapping of names to values"),
    "a word": Case("model", "a mapping of names to values"),
    "numbers as names": Case("1: a", "a mapping of names to values"),
    "only a comment": Case("# nothing", "declares an endpoint"),
    "several documents": Case("model: a/b\n---\nmodel: c/d", "holds 2 endpoints", "usage"),
    "one of several is wrong": Case("model: a/b\n---\nmodel: c/d\nnmae: x", "document 2: nmae"),
    "a key twice": Case("model: a\nmodel: b", "'model' stands twice"),
    "a key twice, inside": _of("scaling: {min_replicas: 1, min_replicas: 2}", "stands twice"),
    "an unknown tag": _of("description: !!python/object/apply:os.system [ls]", "tag"),
    "aliases of aliases": Case(LAUGHS + f"model: {MODEL}", "more than 100,000 values"),
    "an alias of itself": Case("model: &a [*a]", "more than 100,000 values"),
    "an alias of nothing": Case("model: *a", "undefined alias"),
    "nested too deep": Case("model: " + "[" * 5000, "recursion"),
    "no UTF-8 escape": Case('model: "\\ud800"', "surrogates"),
    "a control character": Case('model: "a\\u0000b"', "printable"),
    "two lines": Case('model: "a\\nb"', "one line"),
    "no model": Case("name: x", "model: required"),
    "a model of a number": Case("model: 5", "model = 5"),
    "an unknown field": _of("objectve: {}", "did you mean 'objective'"),
    "an unknown field, inside": _of("objective: {ttfft: 1s}", "did you mean 'ttft'"),
    "fields of another tool": _of("spec: {replicas: 2}", "known: model"),
    "a bad size": _of("resources: {memory: 2 gigs}", "a size like 2GiB"),
    "a bad duration": _of("objective: {ttft: 1 fortnight}", "a duration like 300ms"),
    "an objective of no time": _of("objective: {itl: 0}", "greater than 0"),
    "a negative objective": _of("objective: {e2e: -1}", "greater than 0"),
    "percentile 100": _of("objective: {percentile: 100}", "less than 100"),
    "percentile of letters": _of("objective: {percentile: p95}", "objective.percentile"),
    "NaN": _of("objective: {usd_per_hour: .nan}", "finite"),
    "infinity": _of("workload: {rate: .inf}", "finite"),
    "a negative number": _of("workload: {input_tokens: -5}", "greater than or equal to 1"),
    "a fraction of a token": _of("workload: {output_tokens: 1.5}", "workload.output_tokens"),
    "a list for a number": _of("workload: {concurrency: [1]}", "workload.concurrency"),
    "a word for a switch": _of("unauthenticated: maybe", "unauthenticated"),
    "more at least than at most": _of("scaling: {min_replicas: 3, max_replicas: 2}", "must not be below"),
    "two replicas on one port": _of("resources: {port: 9000}\nscaling: {min_replicas: 2}", "allows one replica"),
    "a port too large": _of("resources: {port: 70000}", "less than or equal to 65535"),
    "a switch for a port": _of("resources: {port: true}", "not true or false"),
    "a name too long": Case(f"model: {MODEL}\nname: {'x' * 41}", "at most 40"),
    "a name of other letters": Case(f"model: {MODEL}\nname: größe", "Try 'gr-e'"),
    "a flag of a list": _of("flags: {context: [1]}", "flags.context"),
    "a flag nobody knows": _of("flags: {cntext: 512}", "did you mean 'context'"),
    "an unknown profile": _of("profile: latncy", "did you mean 'latency'"),
    "a description too long": _of(f"description: {'x' * 501}", "at most 500"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_spec(case: Case, house: House, tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(case.text)
    done = command("endpoint", "create", "--no-wait", "-f", str(file), "--json")
    check_refusal(Refusal.of_json(done.out, done.code), case.code, case.says)


def test_aliases_that_stand_for_little_are_fine(tmp_path: Path, house: House) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text(f"model: &m {MODEL}\nname: fresh\ndescription: *m\n")
    assert command("endpoint", "plan", "-f", str(file), "--json").code == 0
