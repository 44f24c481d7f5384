"""Asking an engine, over HTTP, whether it works: on the real path, since health pages stay green when all stalls."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from outrider.errors import ReplicaFailed


@dataclass(frozen=True, slots=True)
class EngineAddress:
    """Where an engine listens, and the key it asks for."""

    url: str
    key: str

    def call(self, path: str, body: dict[str, Any] | None = None, *, timeout: float) -> Any:
        """One request; the JSON of its answer.

        Raises:
            OSError: nobody listens, or it took longer than ``timeout`` seconds. ReplicaFailed: an error status.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as response:
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise ReplicaFailed(
                f"The engine answered {path} with {error.code}",
                why=error.read(300).decode("utf-8", "replace"),
                remedy="See the engine's log.",
            ) from error
        except ValueError as error:
            raise ReplicaFailed(f"The engine answered {path} with something that is no JSON", why=str(error)) from error


def lists_model(address: EngineAddress, name: str, *, timeout: float = 5.0) -> bool:
    """Whether the port is open and the model is listed under its served name."""
    try:
        models = address.call("/v1/models", timeout=timeout)
    except (OSError, ReplicaFailed):
        return False
    return any(entry.get("id") == name for entry in models.get("data", []))
