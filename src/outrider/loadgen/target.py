"""What load is sent to: an OpenAI-compatible server, with the model's name and what its context holds."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import httpx

from outrider.errors import InvalidInput, Unauthorized, Unavailable, UnknownModel

_TIMEOUT = 10.0


@dataclass(frozen=True, slots=True)
class Target:
    """One server.

    Attributes:
        url: base, ending in ``/v1``.
        model: what requests name.
        key: bearer key, or None.
        context: tokens that one request may hold, or None where nobody says.
        label: what reports call it.
    """

    url: str
    model: str
    key: str | None = None
    context: int | None = None
    label: str = ""

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries. No compression: it would be measured with the rest."""
        given = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return {"Accept-Encoding": "identity", **given}


def base_url(text: str) -> str:
    """A URL as a person writes it → the base of its API, ending in ``/v1``.

    Raises:
        InvalidInput: no http or https URL.
    """
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        raise InvalidInput(f"{text!r} is no URL", why=str(error), remedy="Give one like http://host:8000/v1.") from None
    if url.scheme not in ("http", "https") or not url.host:
        why = "it needs http:// or https:// and a host"
        raise InvalidInput(f"{text!r} is no URL", why=why, remedy="Give one like http://host:8000/v1.")
    path = url.path.rstrip("/")
    return str(url.copy_with(path=path if path.endswith("/v1") else f"{path}/v1", query=None, fragment=None))


def looked_up(target: Target) -> Target:
    """Ask the server for its models; fills ``model`` where it is empty and ``context`` where the server says it.

    Raises:
        Unavailable: it does not answer, or not as an OpenAI-compatible server does.
        Unauthorized: it wants another key.
        UnknownModel: it does not serve ``model``, or serves several and none was named.
    """
    listed = _models(target)
    names = [str(model["id"]) for model in listed]
    if not target.model and len(names) != 1:
        why = f"it serves {', '.join(names) or 'nothing'}"
        raise UnknownModel(f"Which model of {target.url}?", why=why, remedy="Say --model NAME.")
    chosen = target.model or names[0]
    found = next((model for model in listed if model["id"] == chosen), None)
    if found is None:
        why = f"it serves {', '.join(names) or 'nothing'}"
        raise UnknownModel(f"{target.url} does not serve {chosen!r}", why=why, remedy="Say --model NAME.")
    return replace(target, model=chosen, context=target.context or _context(found), label=target.label or target.url)


def _models(target: Target) -> list[dict[str, Any]]:
    remedy = "Check the URL, and that the server runs."
    try:
        answer = httpx.get(f"{target.url}/models", headers=target.headers, timeout=_TIMEOUT)
    except httpx.TransportError as error:
        why = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or "the connection broke"
        raise Unavailable(f"{target.url} does not answer", why=why, remedy=remedy) from error
    if answer.status_code in (401, 403):
        raise Unauthorized(f"{target.url} wants another key", why=f"it answered {answer.status_code}",
                           remedy="Give it with --key, or in OUTRIDER_API_KEY.")  # fmt: skip
    try:
        data = answer.raise_for_status().json()["data"]
        return [model for model in data if isinstance(model, dict) and "id" in model]
    except (httpx.HTTPStatusError, ValueError, KeyError, TypeError):
        why = f"GET /models answered {answer.status_code} and no list of models"
        raise Unavailable(f"{target.url} is no OpenAI-compatible server", why=why, remedy=remedy) from None


def _context(model: dict[str, Any]) -> int | None:
    """``max_model_len`` as vLLM and SGLang say it. llama.cpp's ``meta.n_ctx_train`` is the model's, an upper bound."""
    meta = model.get("meta")
    found = model.get("max_model_len") or (meta.get("n_ctx_train") if isinstance(meta, dict) else None)
    return found if isinstance(found, int) and found > 0 else None
