from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import InvalidReference, WeightsUnavailable
from outrider.models import sources
from outrider.models.sources import HubSource, PackageSource, PathSource, ShippedSource, Source, parse
from outrider.models.weights import Weights


@pytest.mark.parametrize(
    ("reference", "source"),
    [
        ("hf:org/name", HubSource("org/name", "main", None)),
        ("hf:name@v1", HubSource("name", "v1", None)),
        ("hf:org/name@refs/pr/1#a/b.gguf", HubSource("org/name", "refs/pr/1", "a/b.gguf")),
        ("path:/models/x.gguf", PathSource(Path("/models/x.gguf"))),
        ("package:a-b==1.0+cpu#a_b/x.gguf", PackageSource("a-b", "1.0+cpu", "a_b/x.gguf")),
    ],
)
def test_reads_each_form_and_writes_it_again(reference: str, source: Source) -> None:
    assert parse(reference) == source
    assert parse(str(source)) == source


def test_a_tilde_is_the_home_directory() -> None:
    assert parse("path:~/x.gguf") == PathSource(Path.home() / "x.gguf")


@pytest.mark.parametrize(
    ("reference", "nearest"),
    [
        ("org/name", "hf:org/name"),
        ("hub:org/name#x.gguf", "hf:org/name#x.gguf"),
        ("pacakge:a==1#x", "package:a==1#x"),
        ("pypi:a==1#x", "package:a==1#x"),
        ("a==1#x", "package:a==1#x"),
        ("/models/x.gguf", "path:/models/x.gguf"),
        ("./x.gguf", f"path:{Path.cwd()}/x.gguf"),
        ("path:x.gguf", f"path:{Path.cwd()}/x.gguf"),
        ("package:a#x", None),
        ("", None),
        ("hf:", None),
        ("path:", None),
        ("hf:a/b/c", None),
        ("package:-e==1#x", None),
    ],
)
def test_names_what_was_probably_meant(reference: str, nearest: str | None) -> None:
    with pytest.raises(InvalidReference) as caught:
        parse(reference)
    assert caught.value.details["nearest"] == nearest
    assert caught.value.remedy is not None
    assert (nearest or "hf:org/name@revision#file") in caught.value.remedy


@pytest.mark.parametrize(
    "reference",
    ["hf:org/name#../x", "hf:org/name#/etc/x", "hf:org/name@a/../../b", "package:a==1#x/../../y", "hf:org/name#a\nb"],
)
def test_nothing_leaves_its_repository(reference: str) -> None:
    with pytest.raises(InvalidReference):
        parse(reference)


@given(st.text() | st.from_regex(r"(hf|path|package):[\w./@#=~-]*", fullmatch=True))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        source = parse(text)
    except InvalidReference:
        return
    assert parse(str(source)) == source


def test_a_drafter_that_ships_lies_in_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "SHIPPED_DRAFTERS", tmp_path)
    found = parse("outrider:small-dflash")
    assert isinstance(found, ShippedSource)
    assert (str(found), found.path) == ("outrider:small-dflash", tmp_path / "small-dflash")
    with pytest.raises(WeightsUnavailable, match="small-dflash"):
        Weights("outrider:small-dflash").prepare(lambda _: None)
    found.path.mkdir()
    assert Weights("outrider:small-dflash").prepare(lambda _: None) == found.path
    assert Weights("outrider:small-dflash").cached(lambda _: None) == found.path


@pytest.mark.parametrize("wrong", ["outrider:", "outrider:../x", "outrider:A", "outrider:a/b", "outrider:.hidden"])
def test_a_name_of_what_ships_is_a_plain_word(wrong: str) -> None:
    with pytest.raises(InvalidReference, match="lower-case"):
        parse(wrong)
