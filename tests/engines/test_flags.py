"""The engines' flags as data, against what the engines themselves print."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from outrider.engines.flags import Flag, flags, ordered
from outrider.engines.sglang import SGLang
from outrider.engines.vllm import VLLM
from outrider.errors import InvalidInput

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).with_name("recorded")
HELP = (RECORDED / "vllm-0.32.0-help.txt").read_text()


def from_help(text: str) -> dict[str, bool]:
    """Flag → whether it takes no value, of an argparse help."""
    heads = [re.split(r"\s{2,}", line.strip())[0] for line in text.splitlines() if re.match(r"  -", line)]
    found = {}
    for head in heads:
        plain = not re.search(r"--[\w-]+ [A-Z{\[]", head)
        for word in re.findall(r"--[a-z0-9][a-z0-9-]*", head):
            found[word] = plain
    return found


def test_vllms_help_and_the_data_name_the_same_flags() -> None:
    told = from_help(HELP)
    known = {flag.word: flag for flag in flags("vllm").by_name.values() if flag.known_in("0.32.0")}
    negated = {f"--no-{flag.word[2:]}" for flag in known.values() if flag.type == "bool"}
    assert set(told) - {"--help"} == set(known) | negated
    for word, plain in told.items():
        if word in known:
            assert plain == (known[word].type in ("bool", "switch")), word


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_data_are_made_from_what_was_recorded(engine: str) -> None:
    made = subprocess.run(
        [sys.executable, ROOT / "scripts/engine-flags", "merge", engine], capture_output=True, text=True, check=True
    ).stdout
    assert made == (ROOT / f"src/outrider/engines/{engine}_flags.yaml").read_text()


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_recorded_version_has_exactly_its_flags(engine: str) -> None:
    found = flags(engine)
    for version in found.versions:
        recorded = json.loads((RECORDED / f"{engine}-{version}.json").read_text())
        assert {flag.word for flag in found.by_name.values() if flag.known_in(version)} == set(recorded)


@pytest.mark.parametrize("engine", [VLLM, SGLang])
def test_what_outrider_sets_itself_are_flags_of_the_engine(engine: type[VLLM] | type[SGLang]) -> None:
    assert set(engine.taken) <= set(flags(engine.name).by_name)


@pytest.mark.parametrize("engine", [VLLM, SGLang])
def test_the_examples_of_the_docstrings_are_flags_of_every_version(engine: type[VLLM] | type[SGLang]) -> None:
    examples = re.findall(r'``\{"(\w+)": ', engine.__doc__ or "")
    assert any(name in flags(engine.name).by_name for name in examples)
    for name in set(examples) - {"path"}:
        assert all(flags(engine.name).by_name[name].known_in(version) for version in flags(engine.name).versions)


def test_the_recorder_reads_both_styles_of_source(tmp_path: Path) -> None:
    root = tmp_path / "sglang/srt"
    root.mkdir(parents=True)
    (root / "server_args.py").write_text(
        "class ServerArgs:\n"
        "    plain: A[int, 'help'] = 1\n"
        "    named: A[Optional[str], Arg(help='h', cli_name='--other', aliases=['--alias'])] = None\n"
        "    on: A[bool, 'help'] = False\n"
        "    many: A[Optional[List[str]], 'help'] = None\n"
        "    hidden: A[str, Arg(no_cli=True)] = ''\n"
        "    no_argument: int = 3\n"
        "    def add(parser):\n"
        "        parser.add_argument('--late', type=float)\n"
        "        parser.add_argument('--old', action=DeprecatedAction)\n"
    )
    made = subprocess.run(
        [sys.executable, ROOT / "scripts/engine-flags", "record", "sglang", tmp_path],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    expected = {"--plain": "int", "--other": "str", "--alias": "str", "--on": "switch", "--many": "list"}
    assert json.loads(made) == expected | {"--late": "float"}


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("switch", True, ["--x"]),
        ("switch", False, []),
        ("bool", True, ["--x"]),
        ("bool", False, ["--no-x"]),
        ("int", 3, ["--x", "3"]),
        ("str", "a b", ["--x", "a b"]),
        ("list", ["a", "b"], ["--x", "a", "b"]),
        ("list", "a", ["--x", "a"]),
        ("json", {"a": [1]}, ["--x", '{"a": [1]}']),
        ("json", "{}", ["--x", "{}"]),
    ],
)
def test_words_of_a_value(kind: str, value: Any, words: list[str]) -> None:
    assert Flag("--x", kind, "1").words(value) == words


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"max_model_length": 1}, "'max_model_len'"),
        ({"max_model_len": 1}, "context="),
        ({"port": 1}, "Leave it out"),
        ({"block_size": "many"}, "a whole number"),
        ({"block_size": True}, "a whole number"),
        ({"async_scheduling": 1}, "True or False"),
        ({"compilation_config": "{"}, "JSON"),
        ({"middleware": []}, "a list"),
        ({"nothing_like_it_anywhere": 1}, "arguments="),
    ],
)
def test_flags_that_cannot_be_are_refused(extra: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        flags("vllm").checked(extra, VLLM.taken)
    assert said in str(caught.value)


def test_a_flag_of_another_version_is_refused_once_the_version_is_known() -> None:
    found = flags("vllm")
    gone = next(flag for flag in found.by_name.values() if flag.until == "0.24.0")
    new = next(flag for flag in found.by_name.values() if flag.since == "0.32.0")
    found.check_version({gone.name: 1}, "0.24.0")
    found.check_version({new.name: 1}, "0.32.0+cpu")
    for between in ("0.28.1", "0.31.0"):
        found.check_version({gone.name: 1, new.name: 1}, between)
    for flag, version in ((gone, "0.32.0"), (new, "0.24.0"), (gone, "0.40"), (new, "0.20")):
        with pytest.raises(InvalidInput, match=flag.word):
            found.check_version({flag.name: 1}, version)


def test_versions_are_ordered_by_their_numbers() -> None:
    assert ordered("0.5.15.post1") < ordered("0.5.23")
    assert ordered("0.9.1") < ordered("0.24.0") == ordered("0.24.0+cu129")
