"""Bad requests to the REST API: over its Unix socket, and over TCP with wrong keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import httpx
import pytest

from outrider.api.limits import BODY_LIMIT
from tests.e2e.outrider_process import MODEL
from tests.matrix.house import House
from tests.matrix.refusal import Refusal, check_refusal

_SPEC = {"model": MODEL}
_JSON = {"content-type": "application/json"}


class Case(NamedTuple):
    """A request, the code it is refused with, and a word of the refusal. ``body`` is JSON unless it is bytes."""

    request: str
    body: Any
    code: str
    says: str
    headers: Mapping[str, str] = _JSON


def _plan(**fields: Any) -> dict[str, Any]:
    return {**_SPEC, **fields}


def _pieces() -> Iterator[bytes]:
    for _ in range(BODY_LIMIT // 65536 + 2):
        yield b" " * 65536


CASES = {
    "JSON that breaks off": Case("POST /plans", b'{"model": ', "invalid_input", "no valid JSON"),
    "not UTF-8": Case("POST /plans", b"\xff\xfe{}", "invalid_input", "no valid JSON"),
    "nested too deep": Case("POST /plans", b"[" * 50_000, "invalid_input", "body"),
    "a list": Case("POST /plans", [1], "invalid_input", "a JSON object"),
    "no body": Case("POST /plans", b"", "invalid_input", "required"),
    "YAML": Case("POST /plans", b"model: x", "invalid_input", "application/json", {"content-type": "text/yaml"}),
    "no content type": Case("POST /plans", b"{}", "invalid_input", "application/json", {"content-type": ""}),
    "too large, announced": Case("POST /plans", b" " * (BODY_LIMIT + 1), "too_large", "4,194,304"),
    "too large, in pieces": Case("POST /plans", _pieces, "too_large", "4,194,304"),
    "unknown path": Case("GET /nothing", None, "not_found", "openapi.json"),
    "unknown action": Case("POST /endpoints/hello:explode", {}, "method_not_allowed", "GET"),
    "wrong method": Case("PATCH /endpoints/hello", {}, "method_not_allowed", "the path takes"),
    "delete what cannot be": Case("DELETE /status", None, "method_not_allowed", "GET"),
    "field of the wrong type": Case("POST /plans", _plan(workload=5), "invalid_spec", "workload"),
    "number as text": Case("POST /plans", _plan(scaling={"min_replicas": "two"}), "invalid_spec", "min_replicas"),
    "unknown field": Case("POST /plans", _plan(scalling={}), "invalid_spec", "did you mean 'scaling'"),
    "NaN": Case("POST /plans", b'{"model": "a", "flags": {"x": NaN}}', "invalid_spec", "a finite number"),
    "half a character": Case("POST /plans", b'{"model": "\\ud800"}', "invalid_spec", "surrogates"),
    "model too long": Case("POST /plans", {"model": "x" * 501}, "invalid_spec", "500"),
    "memory that nothing fits in": Case("POST /plans", _plan(resources={"memory": 1}), "invalid_input", "MiB"),
    "weights of no form": Case("POST /plans", _plan(weights="package:x"), "invalid_reference", "exact version"),
    "weights that climb": Case("POST /plans", _plan(weights="package:x==1#../y"), "invalid_reference", "leaves its"),
    "a relative path": Case("POST /plans", {"model": "path:x.gguf"}, "invalid_reference", "must be absolute"),
    "unknown recipe": Case("GET /recipes/a/b", None, "recipe_not_found", "outrider recipe list"),
    "two names": Case("PUT /endpoints/fresh", _plan(name="other"), "invalid_input", "the body 'other'"),
    "bad name in the path": Case("PUT /endpoints/Bad_Name", _SPEC, "invalid_spec", "bad-name"),
    "name that is no text": Case("PUT /endpoints/fresh", _plan(name=5), "invalid_input", "the body 5"),
    "If-Match of letters": Case("PUT /endpoints/hello", _SPEC, "invalid_input", "'abc'", {"if-match": "abc"}),
    "If-Match of a small 2": Case("PUT /endpoints/hello", _SPEC, "invalid_input", "no generation", {"if-match": "²"}),
    "If-Match of another time": Case(
        "PUT /endpoints/hello?replace_source=true", _SPEC, "generation_mismatch", "generation 77", {"if-match": '"77"'}
    ),
    "spec over an edited file": Case("PUT /endpoints/hello", _SPEC, "source_edited", "replace-source"),
    "create what exists": Case("PUT /endpoints/hello?create=1", _SPEC, "endpoint_exists", "another name"),
    "create of maybe": Case("PUT /endpoints/fresh?create=maybe", _SPEC, "invalid_input", "query.create"),
    "delete without purge": Case("DELETE /endpoints/hello", None, "conflict", "--purge"),
    "delete what is not there": Case("DELETE /endpoints/nope?purge=1", None, "endpoint_not_found", "endpoint list"),
    "endpoint of a long name": Case(f"GET /endpoints/{'x' * 3000}", None, "endpoint_not_found", "endpoint list"),
    "revision 0": Case("GET /endpoints/hello/revisions/0", None, "revision_not_found", "no revision 0"),
    "revision too large": Case(f"GET /endpoints/hello/revisions/{2**70}", None, "revision_not_found", "no revision"),
    "revision of a small 2": Case("GET /endpoints/hello/revisions/²", None, "revision_not_found", "Give a number"),
    "source of no revision": Case("GET /endpoints/hello/revisions/9/source", None, "revision_not_found", "no revision"),
    "roll back by text": Case("POST /endpoints/hello:rollback", {"revision": "x"}, "invalid_input", "body.revision"),
    "log of no lines": Case("GET /endpoints/hello/replicas/latest/logs?tail=0", None, "invalid_input", "query.tail"),
    "log of no replica": Case("GET /endpoints/hello/replicas/x/logs", None, "replica_not_found", "endpoint info"),
    "events after nothing": Case("GET /endpoints/hello/events?after=-1", None, "invalid_input", "query.after"),
    "events after too much": Case(f"GET /endpoints/hello/events?after={2**70}", None, "invalid_input", "query.after"),
    "too many events": Case("GET /endpoints/hello/events?limit=5000", None, "invalid_input", "query.limit"),
    "deploy without source": Case("POST /deployments", {}, "invalid_input", "required"),
    "deploy a number": Case("POST /deployments", {"source": 5}, "invalid_input", "body.source"),
    "deploy half a character": Case("POST /deployments", b'{"source": "\\ud800"}', "invalid_source", "surrogates"),
    "deploy a zero byte": Case("POST /deployments", b'{"source": "\\u0000"}', "invalid_source", "null bytes"),
    "deploy what is no Python": Case("POST /deployments", {"source": "x = ("}, "invalid_source", "line 1"),
    "deploy to nowhere": Case(
        "POST /endpoints/other/revisions", {"source": "x = 1"}, "invalid_source", "declares 0 servers"
    ),
    "key without a name": Case("POST /keys", {}, "invalid_input", "body.name: required"),
    "key with an unknown field": Case("POST /keys", {"name": "x", "scope": "admin"}, "invalid_input", "body.scope"),
    "key of no scope": Case("POST /keys", {"name": "x", "scopes": []}, "invalid_input", "body.scopes"),
    "key of an unknown scope": Case("POST /keys", {"name": "x", "scopes": ["root"]}, "invalid_input", "'admin'"),
    "key that expired": Case("POST /keys", {"name": "x", "expires_at": 1}, "invalid_input", "in the future"),
    "key that never will": Case("POST /keys", {"name": "x", "expires_at": 2**70}, "invalid_input", "expires_at"),
    "key of no requests": Case(
        "POST /keys", {"name": "x", "limits": {"requests_per_minute": 0}}, "invalid_input", "requests_per_minute"
    ),
    "key that is there": Case("POST /keys", {"name": "app"}, "key_exists", "another name"),
    "revoke no key": Case("DELETE /keys/nope", None, "key_not_found", "outrider key list"),
}

ACCESS = {
    "no key": Case("GET /status", None, "unauthorized", "Authorization: Bearer KEY", {}),
    "unknown key": Case("GET /status", None, "unauthorized", "outrider key create", {"authorization": "Bearer x"}),
    "no bearer": Case("GET /status", None, "unauthorized", "No key", {"authorization": "Basic x"}),
    "key for inference": Case("GET /status", None, "forbidden", "scope admin", {"x-api-key": "{app}"}),
    "key for inference, to write": Case("DELETE /keys/app", None, "forbidden", "scope admin", {"x-api-key": "{app}"}),
}


def _ask(client: httpx.Client, case: Case, headers: dict[str, str]) -> None:
    method, _, target = case.request.partition(" ")
    body = case.body() if callable(case.body) else case.body
    content = body if body is None or callable(case.body) or isinstance(body, bytes) else json.dumps(body).encode()
    coded = [(name.encode(), value.encode()) for name, value in {**_JSON, **headers}.items() if value]
    answer = client.request(method, f"/api/v1{target}", content=content, headers=coded)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["type"]) == (answer.status_code, f"urn:outrider:error:{problem['code']}")
    check_refusal(Refusal.of_problem(problem, answer.status_code), case.code, case.says, http=True)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_request(case: Case, house: House) -> None:
    transport = httpx.HTTPTransport(uds=str(house.socket))
    with httpx.Client(transport=transport, base_url="http://outrider", timeout=30) as client:
        _ask(client, case, dict(case.headers))


@pytest.mark.parametrize("case", ACCESS.values(), ids=ACCESS)
def test_a_request_without_the_right_key(case: Case, house: House) -> None:
    headers = {name: value.replace("{app}", house.keys["app"]) for name, value in case.headers.items()}
    with httpx.Client(base_url=f"http://127.0.0.1:{house.outrider.api_port}", timeout=30) as client:
        _ask(client, case, headers)


def test_a_wrong_method_says_which_are_right(house: House) -> None:
    transport = httpx.HTTPTransport(uds=str(house.socket))
    with httpx.Client(transport=transport, base_url="http://outrider") as client:
        assert client.patch("/api/v1/plans").headers["allow"] == "POST"
