"""The client against a real server on a Unix socket and on TCP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from outrider.client.http import Client
from outrider.errors import (
    ControllerUnreachable,
    EndpointExists,
    GenerationMismatch,
    InvalidInput,
    InvalidName,
    OutriderError,
    Unauthorized,
    Unavailable,
)
from outrider.spec.home import Home
from tests.client.standin import Answer, Asked, serving

_CALLS: list[tuple[Callable[[Client], Any], str, str, dict[str, str], Any]] = [
    (lambda c: c.status(), "GET", "/status", {}, None),
    (lambda c: c.nodes(), "GET", "/nodes", {}, None),
    (lambda c: c.endpoints(), "GET", "/endpoints", {}, None),
    (lambda c: c.endpoint("a"), "GET", "/endpoints/a", {}, None),
    (
        lambda c: c.put("a", {"model": "m"}, create=True),
        "PUT",
        "/endpoints/a",
        {"create": "true", "replace_source": "false"},
        {"model": "m"},
    ),
    (
        lambda c: c.propose("a", {"model": "m"}, replace_source=True),
        "PUT",
        "/endpoints/a",
        {"dry_run": "true", "replace_source": "true"},
        {"model": "m"},
    ),
    (lambda c: c.delete("a", purge=True), "DELETE", "/endpoints/a", {"purge": "true"}, None),
    (lambda c: c.act("a", "stop"), "POST", "/endpoints/a:stop", {}, {}),
    (lambda c: c.act("a", "rollback", {"revision": 2}), "POST", "/endpoints/a:rollback", {}, {"revision": 2}),
    (lambda c: c.deploy("x"), "POST", "/deployments", {}, {"source": "x"}),
    (lambda c: c.deploy("x", "a"), "POST", "/endpoints/a/revisions", {"create": "true"}, {"source": "x"}),
    (lambda c: c.revisions("a"), "GET", "/endpoints/a/revisions", {}, None),
    (lambda c: c.revision("a"), "GET", "/endpoints/a/revisions/current", {}, None),
    (lambda c: c.revision("a", 3), "GET", "/endpoints/a/revisions/3", {}, None),
    (lambda c: c.source("a"), "GET", "/endpoints/a/revisions/current/source", {}, None),
    (lambda c: c.replicas("a"), "GET", "/endpoints/a/replicas", {}, None),
    (lambda c: c.stats("a"), "GET", "/endpoints/a/stats", {}, None),
    (lambda c: c.logs("a", tail=5), "GET", "/endpoints/a/replicas/latest/logs", {"tail": "5"}, None),
    (lambda c: c.events("a", after=7), "GET", "/endpoints/a/events", {"after": "7", "limit": "200"}, None),
    (lambda c: c.plan({"model": "m"}), "POST", "/plans", {}, {"model": "m"}),
    (lambda c: c.recipes(), "GET", "/recipes", {}, None),
    (lambda c: c.recipe("a/b c"), "GET", "/recipes/a/b%20c", {}, None),
    (lambda c: c.keys(), "GET", "/keys", {}, None),
    (lambda c: c.create_key({"name": "k"}), "POST", "/keys", {}, {"name": "k"}),
    (lambda c: c.revoke_key("a/../b"), "DELETE", "/keys/a%2F..%2Fb", {}, None),
]


@pytest.mark.parametrize(("call", "method", "path", "query", "body"), _CALLS)
def test_each_call_asks_for_what_the_api_offers(
    home: Home, call: Callable[[Client], Any], method: str, path: str, query: dict[str, str], body: Any
) -> None:
    with serving(lambda asked: {"items": []}, home.api_socket) as server, Client() as client:
        call(client)
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.query, asked.body) == (method, f"/api/v1{path}", query, body)
    assert "authorization" not in asked.headers


def test_a_remote_controller_gets_the_key(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(lambda asked: {"version": "1"}) as server:
        monkeypatch.setenv("OUTRIDER_URL", server.url)
        monkeypatch.setenv("OUTRIDER_KEY", "or-secret")
        with Client() as client:
            assert (client.local, client.status()) == (False, {"version": "1"})
    assert server.asked[0].headers["authorization"] == "Bearer or-secret"


def test_what_is_said_counts_more_than_the_environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_URL", "http://127.0.0.1:1")
    with serving(lambda asked: {}) as server, Client(server.url, "or-other") as client:
        client.status()
    assert server.asked[0].headers["authorization"] == "Bearer or-other"


@pytest.mark.parametrize(
    "error",
    [
        EndpointExists("There is one", why="w", remedy="r", details={"n": 1}),
        GenerationMismatch("changed"),
        Unauthorized("No key"),
    ],
)
def test_errors_come_as_they_were_raised(home: Home, error: OutriderError) -> None:
    def respond(asked: Asked) -> Any:
        raise error

    with serving(respond, home.api_socket), Client() as client, pytest.raises(type(error)) as caught:
        client.endpoint("a")
    assert caught.value.problem() == error.problem()


def test_the_generation_goes_as_if_match(home: Home) -> None:
    with serving(lambda asked: {}, home.api_socket) as server, Client() as client:
        client.put("a", {}, generation=4)
    assert server.asked[0].headers["if-match"] == '"4"'


def test_without_a_controller_the_way_out_is_named(home: Home) -> None:
    with Client() as client:
        assert not client.reachable()
        with pytest.raises(ControllerUnreachable) as caught:
            client.endpoints()
    assert caught.value.remedy == "Start it with: outrider up"
    assert str(home.api_socket) in str(caught.value.why)


def test_an_unreachable_remote_one_names_its_own_way_out(home: Home) -> None:
    with Client("http://127.0.0.1:1") as client, pytest.raises(ControllerUnreachable, match="OUTRIDER_URL"):
        client.status()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(502, b"<html>Bad Gateway</html>", "text/html"),
        Answer(200, b"<html>login</html>", "text/html"),
        Answer(200, b"[1, 2]"),
        Answer(200, b"\xff\xfe"),
        Answer(302, b""),
    ],
)
def test_what_is_no_controller_is_said_to_be_none(home: Home, answer: Answer) -> None:
    with serving(lambda asked: answer, home.api_socket), Client() as client, pytest.raises(Unavailable, match="no Out"):
        client.status()


@pytest.mark.parametrize("name", ["", "..", "a/b", "A", "a?purge=true", "x" * 41, "a\n", "é"])
def test_a_name_that_is_none_is_never_sent(home: Home, name: str) -> None:
    with serving(lambda asked: {}, home.api_socket) as server, Client() as client:
        with pytest.raises(InvalidName):
            client.delete(name, purge=True)
        assert server.asked == []


@pytest.mark.parametrize("word", ["", ".", ".."])
def test_a_segment_that_would_change_the_path_is_never_sent(home: Home, word: str) -> None:
    with serving(lambda asked: {}, home.api_socket) as server, Client() as client:
        for call in (client.revoke_key, client.recipe, lambda text: client.logs("a", text)):
            with pytest.raises(InvalidInput):
                call(word)
        assert server.asked == []


def test_the_source_comes_to_the_byte(home: Home) -> None:
    source = "# é\r\nx = '\t'\n"
    answer = Answer(body=source.encode(), kind="text/x-python; charset=utf-8")
    with serving(lambda asked: answer, home.api_socket), Client() as client:
        assert client.source("a") == source


def test_events_are_followed_as_they_come(home: Home) -> None:
    chunks = [b": hello\n\n", b'id: 1\nevent: a\ndata: {"id"', b': 1}\n\ndata: {"id":\ndata: 2}\n\n', b"data: {"]
    answer = Answer(kind="text/event-stream", chunks=chunks)
    with serving(lambda asked: answer, home.api_socket) as server, Client() as client:
        assert [event["id"] for event in client.follow_events("a", after=3)] == [1, 2]
    assert server.asked[0].headers["accept"] == "text/event-stream"
    assert server.asked[0].query == {"after": "3"}


def test_an_error_instead_of_a_stream_is_raised(home: Home) -> None:
    def respond(asked: Asked) -> Any:
        raise Unauthorized("No key")

    with serving(respond, home.api_socket), Client() as client, pytest.raises(Unauthorized):
        list(client.follow_events("a"))
