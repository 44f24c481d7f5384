"""The command line run in this process, against a small controller on a real Unix socket."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass

import pytest

from outrider.cli.main import run
from outrider.spec.home import Home
from tests.cli.api import Api
from tests.client.conftest import home
from tests.client.standin import Standin, serving

__all__ = ["home"]


@dataclass(frozen=True)
class Outcome:
    """What a command line came to."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def outrider(home: Home) -> Run:
    """Run a command line; nothing is asked, no output is a terminal."""

    def call(*words: str) -> Outcome:
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run(words)
        return Outcome(code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture
def api() -> Api:
    """What the controller answers; tests change it."""
    return Api()


@pytest.fixture
def controller(home: Home, api: Api) -> Iterator[Standin]:
    """The controller, answering."""
    with serving(api, home.api_socket) as server:
        yield server
