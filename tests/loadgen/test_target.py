from __future__ import annotations

import pytest

from outrider.errors import InvalidInput, Unavailable, UnknownModel
from outrider.loadgen.target import Target, base_url, looked_up
from tests.loadgen.standin import Standin, serving


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://host:8000", "http://host:8000/v1"),
        ("http://host:8000/", "http://host:8000/v1"),
        ("https://host/v1/", "https://host/v1"),
        ("https://host/proxy/v1?x=1", "https://host/proxy/v1"),
    ],
)
def test_urls_as_people_write_them(text: str, url: str) -> None:
    assert base_url(text) == url


@pytest.mark.parametrize("text", ["ftp://host", "http://", "http://[::1", "://"])
def test_what_is_no_url(text: str) -> None:
    with pytest.raises(InvalidInput):
        base_url(text)


def test_the_only_model_and_its_context_are_found() -> None:
    with serving(Standin()) as standin:
        found = looked_up(Target(standin.url, ""))
    assert (found.model, found.context, found.label) == ("standin", 4096, standin.url)


def test_one_of_several_models_must_be_named() -> None:
    with serving(Standin(models=("a", "b"))) as standin:
        with pytest.raises(UnknownModel, match="it serves a, b"):
            looked_up(Target(standin.url, ""))
        with pytest.raises(UnknownModel, match="does not serve 'c'"):
            looked_up(Target(standin.url, "c"))
        assert looked_up(Target(standin.url, "b")).model == "b"


def test_nothing_there() -> None:
    with serving(Standin()) as standin:
        pass
    with pytest.raises(Unavailable):
        looked_up(Target(standin.url, ""))
