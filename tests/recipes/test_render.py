"""Plan → serve.py: deterministic, formatted, and no string of a plan can become code."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from outrider.recipes.library import load_catalog
from outrider.recipes.plan import Plan
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


HOSTILE = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60) | st.sampled_from(
    [
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
        '"',
        "trailing\\",
    ]
)


def shape(text: str) -> list[str]:
    """The statements of a file with every literal taken out."""

    class Blank(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.AST:
            return ast.Constant("…")

    return [ast.dump(Blank().visit(statement)) for statement in ast.parse(text).body]


BENIGN = shape(render(planned(), version="0.0.0"))


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_hostile_strings_stay_strings(model: str, source: str, reason: str, note: str) -> None:
    made = planned()
    made = made.model_copy(
        update={
            "model": model,
            "recipe": note,
            "engine_version": reason,
            "weights": made.weights.model_copy(update={"sources": (source,)}),
            "flags": tuple(flag.model_copy(update={"reason": reason}) for flag in made.flags),
            "provenance": made.provenance.model_copy(update={"note": note}),
            "speculation": made.speculation.model_copy(update={"reason": reason}),
        }
    )
    text = render(made, version="0.0.0")
    assert shape(text) == BENIGN
    (call,) = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call) and "Weights" in ast.dump(n.func)]
    assert ast.literal_eval(call.args[0]) == source
