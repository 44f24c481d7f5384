"""Bad requests to the gateway, byte by byte. Its errors have the shape that OpenAI's clients read."""

from __future__ import annotations

import json
import socket
from typing import NamedTuple

import pytest

from tests.matrix.house import House
from tests.matrix.refusal import check_line

_CHAT = "POST /v1/chat/completions"


class Case(NamedTuple):
    """A request, the status, type and code of its refusal, and a word of the remedy.

    ``key`` is one of the house's, or the key itself; ``head`` are further header lines.
    """

    request: str
    body: bytes
    status: int
    kind: str
    code: str
    says: str
    key: str = "app"
    head: tuple[str, ...] = ()


def _bad(body: bytes, says: str, code: str = "invalid_request") -> Case:
    return Case(_CHAT, body, 400, "invalid_request_error", code, says)


def _missing(request: str, says: str, body: bytes = b"", code: str = "model_not_found") -> Case:
    return Case(request, body, 404, "invalid_request_error", code, says)


def _closed(status: int, key: str, code: str, says: str, name: str = "hello") -> Case:
    kind = "authentication_error" if status == 401 else "permission_error"
    return Case(f"GET /e/{name}/", b"", status, kind, code, says, key)


CASES = {
    "JSON that breaks off": _bad(b'{"model": ', "JSON object"),
    "not UTF-8": _bad(b"\xff\xfe", "JSON object"),
    "a list": _bad(b"[]", "JSON object"),
    "no body": _bad(b"", "JSON object"),
    "nested too deep": _bad(b"[" * 100_000, "JSON object"),
    "no model": _bad(b"{}", "Set 'model'"),
    "a model of a number": _bad(b'{"model": 5}', "Set 'model'"),
    "misspelt model": _missing(_CHAT, "Did you mean 'hello'?", b'{"model": "helo"}'),
    "unknown model": _missing(_CHAT, "There are: hello", b'{"model": "gpt-4o"}'),
    "unknown model, listed": _missing("GET /v1/models/gpt-4o", "There are: hello"),
    "an adapter of an unknown model": _missing(_CHAT, "There are: hello", b'{"model": "gpt-4o:polite"}'),
    "an adapter where there is none": _missing(
        _CHAT, "no adapter 'polite', nor any other. Send 'hello'", b'{"model": "hello:polite"}', "adapter_not_found"
    ),
    "unknown custom server": _missing("GET /e/nobody/", "There are: hello"),
    "unknown path": _missing("POST /v1/chat/completion", "/v1/chat/completions", code="unknown_path"),
    "an engine's own path": _missing("POST /slots/0", "/v1/chat/completions", code="unknown_path"),
    "wrong method": Case(
        "GET /v1/chat/completions", b"", 405, "invalid_request_error", "method_not_allowed", "allowed: OPTIONS, POST"
    ),
    "no key": _closed(401, "", "unauthorized", "Authorization: Bearer KEY"),
    "wrong key": _closed(401, "or-nobodys", "unauthorized", "outrider key create"),
    "key for administration": _closed(403, "boss", "forbidden", "scope 'inference'"),
    "key for another endpoint": _closed(403, "narrow", "forbidden", "outrider key create"),
    "two lengths": Case(_CHAT, b"{}", 400, "invalid_request_error", "bad_request", "HTTP", head=("content-length: 3",)),
    "length and chunks": Case(
        _CHAT, b"{}", 400, "invalid_request_error", "bad_request", "HTTP", head=("transfer-encoding: chunked",)
    ),
    "negative length": Case(
        "GET /x", b"", 400, "invalid_request_error", "bad_request", "HTTP", head=("content-length: -1",)
    ),
    "no HTTP": Case("garbage", b"", 400, "invalid_request_error", "bad_request", "HTTP"),
    "upgrade": Case(
        "GET /e/hello/", b"", 400, "invalid_request_error", "upgrade_not_supported", "without an Upgrade header",
        head=("upgrade: h2c", "connection: upgrade"),
    ),
    "realtime without a WebSocket": Case(
        "GET /v1/realtime?model=hello", b"", 426, "invalid_request_error", "upgrade_required", "is a WebSocket"
    ),
    "head too large": Case(
        "GET /x", b"", 431, "invalid_request_error", "head_too_large", "Send fewer", head=(f"x: {'y' * 70_000}",)
    ),
    "body too large": Case(
        _CHAT.replace("POST", "PUT"), b"", 413, "invalid_request_error", "body_too_large", "Send less",
        head=("content-length: 99999999999",),
    ),
}  # fmt: skip


def _exchange(port: int, sent: bytes) -> tuple[int, dict[str, dict[str, str]]]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(sent)
        with connection.makefile("rb") as reader:
            status = int(reader.readline().split()[1])
            headers = dict(line.decode().strip().lower().split(": ", 1) for line in iter(reader.readline, b"\r\n"))
            return status, json.loads(reader.read(int(headers["content-length"])))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_request(case: Case, house: House) -> None:
    lines = [f"{case.request} HTTP/1.1", "host: x", *case.head]
    if case.key:
        lines.append(f"authorization: Bearer {house.keys.get(case.key, case.key)}")
    if case.body:
        lines.append(f"content-length: {len(case.body)}")
    status, answer = _exchange(house.outrider.port, "\r\n".join([*lines, "", ""]).encode() + case.body)
    error = answer["error"]
    assert (status, error["type"], error["code"]) == (case.status, case.kind, case.code), error
    assert set(error) == {"message", "type", "param", "code"}
    assert case.says in error["message"]
    check_line(error["message"])
