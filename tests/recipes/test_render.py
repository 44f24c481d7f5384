"""Plan → serve.py: deterministic, formatted, and no string of a plan can become code."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.recipes.library import load_catalog
from outrider.recipes.plan import Flag, Plan
from outrider.recipes.planner import plan
from outrider.recipes.render import render
from outrider.spec.endpoint import parse
from outrider.spec.inventory import Inventory

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
MACHINE = Inventory(cores=2, memory_bytes=8 * 2**30, disk_free_bytes=2**40)
GOLDEN = Path(__file__).with_name("golden")


def planned(**spec: object) -> Plan:
    return plan(parse({"model": MODEL, **spec}), MACHINE, load_catalog([]))


def test_golden() -> None:
    text = render(planned(), version="0.0.0")
    golden = GOLDEN / "smollm2.py.golden"
    assert text == golden.read_text(), "if the change is meant, write the new text there"


def test_it_is_formatted(tmp_path: Path) -> None:
    file = tmp_path / "serve.py"
    file.write_text(render(planned(task="embed", name="vectors"), version="0.0.0"))
    argv = [sys.executable, "-m", "ruff", "format", "--check", "--isolated", "--line-length", "120", str(file)]
    subprocess.run(argv, check=True, capture_output=True)


SAMPLES = [
    '"""',
    "'''",
    '"""\nimport os\nos.abort()\n"""',
    "\\",
    '\\"',
    "a\"b'c",
    "\\N{DEGREE SIGN}",
    "x\r\nimport os",
    "x\rimport os",
    "\x0cimport os",
    "# noqa\u2028import os",
    "{NAME}",
    "\x00",
    "# fmt: off",
    "type: ignore",
    "noqa",
    "\u202e bidi",
    '"',
    "trailing\\",
]
HOSTILE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60) | st.sampled_from(SAMPLES)


def shape(text: str) -> list[str]:
    """The statements of a file with every literal taken out."""

    class Blank(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.AST:
            return ast.Constant("…")

    return [ast.dump(Blank().visit(statement)) for statement in ast.parse(text).body]


PLANNED = planned()
BENIGN = shape(render(PLANNED, version="0.0.0"))


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_hostile_strings_stay_strings(model: str, source: str, reason: str, note: str) -> None:
    made = PLANNED
    made = made.model_copy(
        update={
            "model": model,
            "recipe": note,
            "engine_version": reason,
            "weights": made.weights.model_copy(update={"sources": (source, source)}),
            "flags": tuple(flag.model_copy(update={"reason": reason}) for flag in made.flags),
            "provenance": made.provenance.model_copy(update={"note": note}),
            "speculation": made.speculation.model_copy(update={"reason": reason}),
        }
    )
    text = render(made, version="0.0.0")
    assert shape(text) == BENIGN
    comments = [t.string for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type == tokenize.COMMENT]
    assert all(comment.isprintable() for comment in comments)
    assert not any(comment.lower().startswith(("# fmt", "# type", "# noqa", "# ruff")) for comment in comments)
    (call,) = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call) and "Weights" in ast.dump(n.func)]
    assert ast.literal_eval(call.args[0]) == source


@given(st.dictionaries(st.sampled_from(["chat_template"]), HOSTILE, min_size=1), HOSTILE, HOSTILE)
def test_hostile_values_are_the_values_of_the_plan(extra: dict[str, str], package: str, payload: str) -> None:
    flags = tuple(Flag(name=name, value=value, reason="hostile") for name, value in extra.items())
    environment = PLANNED.environment.model_copy(update={"packages": (package,), "env": {package: payload}})
    warm_up = ({"path": "/v1/completions", "body": {payload: [payload, 1.5, None, True]}},)
    changes = {"flags": (*PLANNED.flags, *flags), "environment": environment, "warm_up": warm_up}
    tree = ast.parse(render(PLANNED.model_copy(update=changes), version="0.0.0"))
    assigned = {
        n.targets[0].id: n.value for n in tree.body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
    }
    assert ast.literal_eval(assigned["WARM_UP"]) == warm_up
    assert _arguments(assigned["ENGINE"])["extra"] == extra
    assert _arguments(assigned["ENVIRONMENT"]) == {"packages": (package,), "env": {package: payload}}


def _arguments(node: ast.expr) -> dict[str, object]:
    assert isinstance(node, ast.Call)
    return {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg and not isinstance(k.value, ast.Name)}


@given(HOSTILE)
def test_hostile_files_stay_formatted_in_shape(text: str) -> None:
    made = PLANNED.model_copy(update={"flags": tuple(f.model_copy(update={"reason": text}) for f in PLANNED.flags)})
    lines = render(made, version="0.0.0").splitlines()
    assert all(line == line.rstrip() for line in lines)


def test_hostile_files_are_formatted(tmp_path: Path) -> None:
    for number, text in enumerate(SAMPLES):
        weights = PLANNED.weights.model_copy(update={"sources": (text, text)})
        flags = tuple(f.model_copy(update={"reason": text or "none"}) for f in PLANNED.flags)
        made = PLANNED.model_copy(update={"model": text, "weights": weights, "flags": flags})
        (tmp_path / f"{number}.py").write_text(render(made, version="0.0.0"), encoding="utf-8")
    for width in ("88", "120"):
        argv = [sys.executable, "-m", "ruff", "format", "--diff", "--isolated", "--line-length", width, str(tmp_path)]
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_surrogates_are_no_text_of_a_plan() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        Plan.model_validate({**PLANNED.model_dump(), "model": "\ud800"})


def test_a_flag_the_engine_lacks_is_no_source() -> None:
    made = PLANNED.model_copy(update={"flags": (Flag(name="x=1, y", value=1, reason="r"),)})
    with pytest.raises(ValueError, match="no flag"):
        render(made, version="0.0.0")
