"""Keys, embeddings, and a home that cannot be used: from the command line, with the real engine."""

from __future__ import annotations

import json

import httpx
import openai
import pytest

from tests.e2e.outrider_process import MODEL, NAME, Outrider, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_from_the_first_key_on_one_is_needed(outrider: Outrider) -> None:
    outrider.run("endpoint", "create", "--model", MODEL, "--set", "embeddings=true")
    secret = outrider.json("key", "create", "app")["secret"]
    until(lambda: outrider.chat(tokens=1).status_code == 401)
    with openai.OpenAI(base_url=f"{outrider.url}/v1", api_key=secret) as client:
        (vector,) = client.embeddings.create(model=NAME, input="hello", encoding_format="float").data
        assert len(vector.embedding) == 576
    assert secret not in outrider.run("key", "list", "--json")
    assert _models(outrider, secret) == 200
    outrider.run("key", "revoke", "app")
    until(lambda: _models(outrider, secret) == 401)  # the last key is gone: the door is shut, not open
    assert outrider.chat(tokens=1).status_code == 401


def _models(outrider: Outrider, secret: str) -> int:
    return httpx.get(f"{outrider.url}/v1/models", headers={"Authorization": f"Bearer {secret}"}).status_code


def test_the_same_spec_again_changes_nothing(outrider: Outrider) -> None:
    outrider.run("endpoint", "create", "--model", MODEL)
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(outrider.home.api_socket))) as api:
        path = f"http://outrider/api/v1/endpoints/{NAME}"
        first = api.get(path).json()
        again = api.put(path, json=first["spec"])
        assert again.status_code == 200
        assert (again.json()["revision"], again.json()["generation"]) == (first["revision"], first["generation"])
        stale = api.put(path, json=first["spec"], headers={"If-Match": "0"})
        assert (stale.status_code, stale.json()["code"]) == (412, "generation_mismatch")
        other = api.put(
            path, json={**first["spec"], "flags": {"slots": 2}}, headers={"If-Match": str(first["generation"])}
        )
        assert other.json()["revision"]["number"] == 2


def test_the_api_on_its_port_wants_an_admin_key(outrider: Outrider) -> None:
    outrider.run("up", "--port", str(outrider.port), "--api-port", str(outrider.api_port))
    url = f"http://127.0.0.1:{outrider.api_port}/api/v1/status"
    assert httpx.get(url).status_code == 401
    plain = outrider.json("key", "create", "plain")["secret"]
    admin = outrider.json("key", "create", "boss", "--scope", "admin")["secret"]
    assert httpx.get(url, headers={"x-api-key": plain}).status_code == 403
    assert httpx.get(url, headers={"x-api-key": admin}).json()["controller"]["home"] == str(outrider.home.root)


def test_listening_for_everybody_needs_a_key(outrider: Outrider) -> None:
    words = ("up", "--host", "0.0.0.0", "--port", str(outrider.port), "--api-port", str(outrider.api_port))
    done = outrider.attempt(*words)
    assert done.returncode == 5
    assert "outrider key create" in done.stderr


def test_a_home_that_is_a_file_is_one_line(outrider: Outrider) -> None:
    outrider.home.root.write_text("in the way")
    done = outrider.attempt("up")
    assert done.returncode == 7
    assert "OUTRIDER_HOME" in done.stderr
    outrider.home.root.unlink()


def test_plan_explains_itself_without_starting_anything(outrider: Outrider) -> None:
    made = json.loads(outrider.run("endpoint", "plan", "--model", MODEL, "--json"))
    assert all(decision["reason"] for decision in made["decisions"])
    said = outrider.run("endpoint", "plan", "--model", MODEL)
    assert "recipe" in said and "threads" in said
    assert not outrider.home.root.exists()
    assert outrider.attempt("status").returncode == 6
