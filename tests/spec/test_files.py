"""Endpoints in files: several documents, several files, directories; every problem with its place."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from outrider.errors import InvalidSpec
from outrider.spec.files import read_files


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that relative names are in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _problems(*paths: str) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        read_files(paths)
    assert "Nothing was changed" in str(caught.value.remedy)
    return [str(problem["message"]) for problem in caught.value.problems]


def test_documents_files_and_directories_in_order(here: Path) -> None:
    (here / "d/below").mkdir(parents=True)
    (here / "d/b.yml").write_text("model: x/b1\n---\n---\nmodel: x/b2\n")
    (here / "d/a.yaml").write_text("# first\nmodel: x/a\n")
    for ignored in ("d/notes.txt", "d/.hidden.yaml", "d/below/c.yaml"):
        (here / ignored).write_text("no: endpoint")
    (here / "z.yaml").write_text("model: x/z\n")
    found = read_files(["z.yaml", "d", "z.yaml"])
    assert [(entry.name, entry.document, entry.place()) for entry in found] == [
        ("z", 1, "z.yaml:1"),
        ("a", 1, "d/a.yaml:2"),
        ("b1", 1, "d/b.yml:1"),
        ("b2", 2, "d/b.yml:4"),
    ]


def test_a_spec_is_what_the_file_says_and_no_default(here: Path) -> None:
    (here / "a.yaml").write_text("model: x/a\nresources: {memory: 1GiB}\n")
    (found,) = read_files(["a.yaml"])
    assert found.spec() == {"model": "x/a", "resources": {"memory": 2**30}}


def test_relative_paths_are_meant_from_the_file(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    (here / "d").mkdir()
    (here / "d/a.yaml").write_text(
        "model: path:m.gguf\nweights: path:../w/x.gguf\ndrafter: path:./d.gguf\n---\n"
        "model: x/b\nweights: path:/abs/x.gguf\ndrafter: {source: path:~/d.gguf}\n---\n"
        "model: x/c\nweights: hf:org/name\ndrafter: off\nadapters: {a: path:l/a, b: hf:org/b, c: path:/abs}\n"
    )
    one, two, three = (entry.spec() for entry in read_files(["d"]))
    assert (one["model"], one["weights"]) == (f"path:{here}/d/m.gguf", f"path:{here}/w/x.gguf")
    assert one["drafter"] == {"source": f"path:{here}/d/d.gguf"}
    assert (two["weights"], two["drafter"]) == ("path:/abs/x.gguf", {"source": "path:/home/u/d.gguf"})
    assert (three["weights"], three["drafter"]) == ("hf:org/name", {"source": "off"})
    assert three["adapters"] == {"a": f"path:{here}/d/l/a", "b": "hf:org/b", "c": "path:/abs"}


def test_standard_input(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("model: path:m.gguf\n"))
    (found,) = read_files(["-"])
    assert found.place() == "(standard input):1"
    assert found.endpoint.model == f"path:{here}/m.gguf"


def test_every_problem_of_every_file_has_its_line(here: Path) -> None:
    (here / "a.yaml").write_text("model: x/a\ntask: genrate\n---\nmodel: x/b\nscaling:\n  # many\n  min_replicas: x\n")
    (here / "b.yaml").write_text("model: x/c\nmodel: x/d\n")
    (here / "c.yaml").write_text("name: c\nmodle: x/c\n")
    (here / "d.yaml").write_text("- model: x/d\n")
    (here / "e.yaml").write_bytes(b"model: \xff\n")
    said = _problems(".", "absent.yaml")
    assert [message.split(" ")[0] for message in said] == [
        "a.yaml:2:",
        "a.yaml:7:",
        "b.yaml:2:",
        "c.yaml:1:",
        "c.yaml:2:",
        "d.yaml:1:",
        "e.yaml:",
        "absent.yaml:",
    ]
    assert "document 1: task = 'genrate'" in said[0] and "did you mean 'generate'" in said[0]
    assert "document 2: scaling.min_replicas" in said[1]
    assert "'model' stands twice" in said[2]
    assert "document" not in said[3]


def test_one_endpoint_stands_once(here: Path) -> None:
    (here / "a.yaml").write_text("model: x/same\n")
    (here / "b.yaml").write_text("model: x/other\n---\nmodel: y/Same\n")
    (message,) = _problems("a.yaml", "b.yaml")
    assert message == "b.yaml:3: the endpoint 'same' is declared already at a.yaml:1"


@pytest.mark.parametrize("text", ["", "---\n---\n", "# only words\n"])
def test_no_endpoint_at_all(here: Path, text: str) -> None:
    (here / "a.yaml").write_text(text)
    assert "declares an endpoint" in _problems("a.yaml")[0]


def test_an_empty_directory_is_named(here: Path) -> None:
    (here / "d").mkdir()
    assert _problems("d") == ["d: the directory holds no *.yaml or *.yml"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_directory_that_may_not_be_read(here: Path) -> None:
    (here / "d").mkdir(mode=0)
    assert _problems("d") == ["d: cannot be read: Permission denied"]


def test_yaml_that_leads_back_to_itself_is_one_error(here: Path) -> None:
    (here / "a.yaml").write_text("&a\nmodel: x/a\nflags: *a\n")
    assert _problems("a.yaml")[0].startswith("a.yaml:")
