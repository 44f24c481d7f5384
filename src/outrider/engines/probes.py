"""Asking an engine, over HTTP, whether it works.

On the real path, because health pages stay green while requests stall.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from outrider.errors import ReplicaFailed

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Without the proxies of the environment: an engine listens on loopback, which no proxy can reach."""
_MAX_ANSWER = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where an engine listens (``url``, without a path), and the key it asks for."""

    url: str
    key: str = field(repr=False)

    def text(self, path: str, body: Mapping[str, Any] | None = None, *, timeout: float) -> str:
        """One request (POST with a body, else GET); the text of its answer.

        Raises:
            OSError: nobody listens, it was cut off, or it took longer than ``timeout`` seconds.
            ReplicaFailed: an error status; ``details["status"]`` has it.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        try:
            with _DIRECT.open(request, timeout=timeout) as response:
                answer: bytes = response.read(_MAX_ANSWER)
        except urllib.error.HTTPError as error:
            with error:
                raise ReplicaFailed(
                    f"The engine answered {path} with {error.code}",
                    why=error.read(300).decode("utf-8", "replace").strip() or None,
                    remedy="See the engine's log.",
                    details={"status": error.code},
                ) from error
        except http.client.HTTPException as error:
            raise ConnectionError(f"{self.url} does not speak HTTP: {type(error).__name__}") from error
        return answer.decode("utf-8", "replace")

    def json(self, path: str, body: Mapping[str, Any] | None = None, *, timeout: float) -> dict[str, Any]:
        """One request; the JSON object of its answer. Raises what :meth:`text` does; ReplicaFailed for other text."""
        try:
            answer = json.loads(self.text(path, body, timeout=timeout))
        except ValueError as error:
            raise ReplicaFailed(f"The engine answered {path} with something that is no JSON", why=str(error)) from error
        if not isinstance(answer, dict):
            raise ReplicaFailed(f"The engine answered {path} with something that is no JSON object")
        return answer


def lists_model(address: EngineAddress, name: str, *, timeout: float = 2.0) -> bool:
    """Whether the engine answers, takes the key, and lists the model under its served name."""
    try:
        entries = address.json("/v1/models", timeout=timeout).get("data")
    except (OSError, ReplicaFailed):
        return False
    return isinstance(entries, list) and any(isinstance(entry, dict) and entry.get("id") == name for entry in entries)


def completion_text(answer: Mapping[str, Any]) -> str:
    """The text of a completion, chat or plain. Raises ReplicaFailed where nothing was generated."""
    try:
        choice = answer["choices"][0]
        generated = answer["usage"]["completion_tokens"]
        message = choice.get("message") or {}
        text = message.get("content") or choice.get("text") or ""
    except (KeyError, IndexError, TypeError, AttributeError):
        raise _wrong(answer, "it is no completion") from None
    if not generated:
        raise _wrong(answer, "nothing was generated")
    return str(text)


def structured_value(answer: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """The value of a completion that was constrained by a JSON schema, checked against it.

    Raises:
        ReplicaFailed: no JSON, cut off before its end, or JSON that breaks the schema.
    """
    text = completion_text(answer)
    try:
        value = json.loads(text)
    except ValueError:
        cut = answer["choices"][0].get("finish_reason") == "length"
        raise _wrong(answer, "its JSON was cut off: raise max_tokens" if cut else "it is no JSON") from None
    if not conforms(value, schema):
        raise _wrong(answer, "its JSON breaks the schema")
    return value


def tool_call(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The first tool call of a completion that was told to call ``name``. Raises ReplicaFailed where there is none.

    Its arguments are the model's to get right, so only that they are there is looked at.
    """
    try:
        found: Mapping[str, Any] = answer["choices"][0]["message"]["tool_calls"][0]["function"]
        if found["name"] != name or not isinstance(found["arguments"], str):
            raise _wrong(answer, f"it calls {found['name']!r}, not {name!r}")
    except (KeyError, IndexError, TypeError):
        raise _wrong(answer, "it calls no tool") from None
    return found


def embedding(answer: Mapping[str, Any]) -> list[float]:
    """The first vector of an embeddings answer. Raises ReplicaFailed where there is none, or only zeros."""
    try:
        vector = [float(number) for number in answer["data"][0]["embedding"]]
    except (KeyError, IndexError, TypeError, ValueError):
        raise _wrong(answer, "it is no embedding") from None
    if not any(vector):
        raise _wrong(answer, "the vector is empty or zero")
    return vector


def conforms(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a value follows a JSON schema, of which type, enum, const, properties, required, items and
    additionalProperties=false are looked at: enough to tell a grammar that works from one that was ignored."""
    if "const" in schema and value != schema["const"]:
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    kinds = schema.get("type")
    if kinds is not None and not any(_is(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        return False
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        closed = schema.get("additionalProperties") is False
        return (
            all(name in value for name in schema.get("required", ()))
            and not (closed and set(value) - set(properties))
            and all(conforms(value[name], part) for name, part in properties.items() if name in value)
        )
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return all(conforms(item, schema["items"]) for item in value)
    return True


def _is(value: Any, kind: str) -> bool:
    if kind in ("integer", "number"):
        whole = isinstance(value, int) or (isinstance(value, float) and (kind == "number" or value.is_integer()))
        return whole and not isinstance(value, bool)
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    return isinstance(value, types.get(kind, object))


def _wrong(answer: Mapping[str, Any], why: str) -> ReplicaFailed:
    return ReplicaFailed(
        "The engine gave a wrong answer", why=f"{why}: {json.dumps(answer)[:300]}", remedy="See the engine's log."
    )
