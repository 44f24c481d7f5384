from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from outrider.engines import warmup
from outrider.engines.probes import EngineAddress, conforms, embedding, lists_model, structured_value
from outrider.errors import ReplicaFailed
from tests.e2e.outrider_process import free_port
from tests.engines.conftest import ignore

Answers = dict[str, tuple[int, bytes]]


def completion(text: str, *, tokens: int = 3, finish: str = "stop") -> dict[str, Any]:
    return {
        "choices": [{"message": {"content": text}, "finish_reason": finish}],
        "usage": {"completion_tokens": tokens},
    }


@pytest.fixture
def serve() -> Iterator[Callable[[Answers], EngineAddress]]:
    """An HTTP server with prepared answers, by path."""
    servers: list[tuple[ThreadingHTTPServer, Thread]] = []

    def start(answers: Answers) -> EngineAddress:
        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                pass

            def do_GET(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, body = answers[self.path]
                if self.headers["Authorization"] != "Bearer k":
                    status, body = 401, b"no"
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        servers.append((server, thread))
        return EngineAddress(f"http://127.0.0.1:{server.server_address[1]}", "k")

    yield start
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, b'{"data": [{"id": "other"}, {"id": "hello"}]}', True),
        (200, b'{"data": [{"id": "other"}]}', False),
        (200, b'{"data": "hello"}', False),
        (200, b"[]", False),
        (200, b"<html>", False),
        (503, b"loading", False),
    ],
)
def test_lists_model(serve: Callable[[Answers], EngineAddress], status: int, body: bytes, expected: bool) -> None:
    assert lists_model(serve({"/v1/models": (status, body)}), "hello") is expected


def test_proxies_of_the_environment_are_not_asked(
    serve: Callable[[Answers], EngineAddress], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    assert lists_model(serve({"/v1/models": (200, b'{"data": [{"id": "hello"}]}')}), "hello")


def test_nobody_listens() -> None:
    assert not lists_model(EngineAddress(f"http://127.0.0.1:{free_port()}", "k"), "hello")


def test_something_that_does_not_speak_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0\r\n\r\n")

        thread = Thread(target=talk)
        thread.start()
        assert not lists_model(EngineAddress(f"http://127.0.0.1:{server.getsockname()[1]}", "k"), "hello")
        thread.join()


def test_an_error_says_what_the_engine_said(serve: Callable[[Answers], EngineAddress]) -> None:
    with pytest.raises(ReplicaFailed, match="with 500: out of memory") as caught:
        serve({"/x": (500, b"out of memory")}).json("/x", {}, timeout=5)
    assert caught.value.details["status"] == 500


def test_the_key_is_not_in_the_repr() -> None:
    assert "secret" not in repr(EngineAddress("http://x", "secret"))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (completion("{}"), "breaks the schema"),
        (completion("no"), "is no JSON"),
        (completion('{"ok": tr', finish="length"), "raise max_tokens"),
        (completion('{"ok": true}', tokens=0), "nothing was generated"),
        ({"error": "x"}, "no completion"),
    ],
)
def test_a_wrong_structured_answer(answer: dict[str, Any], said: str) -> None:
    schema = warmup.JSON_SCHEMA["body"]["response_format"]["json_schema"]["schema"]
    assert structured_value(completion('{"ok": true}'), schema) == {"ok": True}
    with pytest.raises(ReplicaFailed, match=said):
        structured_value(answer, schema)


@pytest.mark.parametrize("data", [[], [{"embedding": []}], [{"embedding": [0.0]}], [{"embedding": "x"}], None])
def test_a_wrong_embedding(data: Any) -> None:
    assert embedding({"data": [{"embedding": [1, 2.5]}]}) == [1.0, 2.5]
    with pytest.raises(ReplicaFailed):
        embedding({"data": data})


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        (3, {"type": "integer"}, True),
        (3.0, {"type": "integer"}, True),
        (3.5, {"type": "integer"}, False),
        (True, {"type": "integer"}, False),
        (None, {"type": ["string", "null"]}, True),
        ([1, "a"], {"type": "array", "items": {"type": "integer"}}, False),
        ([1, 2], {"type": "array", "items": {"type": "integer"}}, True),
        ("c", {"enum": ["a", "b"]}, False),
        ("c", {"const": "c"}, True),
        ({"a": 1, "b": 2}, {"properties": {"a": {}}, "additionalProperties": False}, False),
        ({"a": 1, "b": 2}, {"properties": {"a": {}}}, True),
        ({}, {"required": ["a"]}, False),
        ({"a": {"b": 1}}, {"properties": {"a": {"properties": {"b": {"type": "string"}}}}}, False),
        ("anything", {}, True),
    ],
)
def test_conforms(value: Any, schema: dict[str, Any], expected: bool) -> None:
    assert conforms(value, schema) is expected


def test_warm_up_names_the_request_that_failed(serve: Callable[[Answers], EngineAddress]) -> None:
    answers = {"/v1/chat/completions": (200, json.dumps(completion("hi")).encode())}
    with pytest.raises(ReplicaFailed, match=r"request 2 failed.*no JSON"):
        warmup.run(serve(answers), "hello", warmup.default_payloads(), ignore)


def test_warm_up_with_nobody_there() -> None:
    with pytest.raises(ReplicaFailed, match="request 1 got no answer"):
        warmup.run(EngineAddress(f"http://127.0.0.1:{free_port()}", "k"), "hello", [warmup.CHAT], ignore)


def test_a_payload_of_another_path_only_has_to_answer(serve: Callable[[Answers], EngineAddress]) -> None:
    seen: list[object] = []
    address = serve({"/v1/rerank": (200, b"{}")})
    warmup.run(address, "hello", warmup.check_payloads([{"path": "/v1/rerank", "body": {}}]), seen.append)
    assert len(seen) == 1
