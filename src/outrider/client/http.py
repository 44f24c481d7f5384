"""A client of the REST API: over the Unix socket of this machine's Outrider, or to another by URL and key."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx

from outrider.errors import ControllerUnreachable, OutriderError
from outrider.spec.home import Home

_PREFIX = "/api/v1"
_TIMEOUT = httpx.Timeout(60.0, connect=5.0)


class Client:
    """Speaks to one controller.

    Args:
        url: of a remote controller; None: ``OUTRIDER_URL``, else the local Unix socket.
        key: for a remote one; None: ``OUTRIDER_KEY``.
    """

    def __init__(self, url: str | None = None, key: str | None = None) -> None:
        url = url or os.environ.get("OUTRIDER_URL")
        key = key or os.environ.get("OUTRIDER_KEY")
        self.local = url is None
        if url is None:
            transport = httpx.HTTPTransport(uds=str(Home.from_environment().api_socket))
            self._http = httpx.Client(base_url="http://outrider", transport=transport, timeout=_TIMEOUT)
        else:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            self._http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=_TIMEOUT)

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reachable(self) -> bool:
        """Whether a controller answers."""
        try:
            self.status()
        except ControllerUnreachable:
            return False
        return True

    def status(self) -> dict[str, Any]:
        """What is up."""
        return self._json("GET", "/status")

    def endpoints(self) -> list[dict[str, Any]]:
        """All endpoints."""
        return list(self._json("GET", "/endpoints")["items"])

    def endpoint(self, name: str) -> dict[str, Any]:
        """One endpoint. Raises EndpointNotFound."""
        return self._json("GET", f"/endpoints/{quote(name, safe='')}")

    def put(self, name: str, spec: dict[str, Any], *, create: bool = False) -> dict[str, Any]:
        """Make an endpoint, or give it a new spec; ``create``: refuse where there is one."""
        return self._json("PUT", f"/endpoints/{quote(name, safe='')}", json=spec, params={"create": create})

    def deploy(self, source: str, name: str | None = None) -> dict[str, Any]:
        """Deploy a ``serve.py``, by default under the name of its App."""
        if name is None:
            return self._json("POST", "/deployments", json={"source": source})
        path = f"/endpoints/{quote(name, safe='')}/revisions"
        return self._json("POST", path, json={"source": source}, params={"create": True})

    def act(self, name: str, action: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """``stop``, ``start`` or ``rollback``."""
        return self._json("POST", f"/endpoints/{quote(name, safe='')}:{action}", json=body or {})

    def delete(self, name: str, *, purge: bool) -> None:
        """Remove an endpoint."""
        self._request("DELETE", f"/endpoints/{quote(name, safe='')}", params={"purge": purge})

    def revisions(self, name: str) -> list[dict[str, Any]]:
        """Its revisions, oldest first."""
        return list(self._json("GET", f"/endpoints/{quote(name, safe='')}/revisions")["items"])

    def revision(self, name: str, number: str = "current") -> dict[str, Any]:
        """One revision with its plan."""
        return self._json("GET", f"/endpoints/{quote(name, safe='')}/revisions/{number}")

    def source(self, name: str, number: str = "current") -> str:
        """Its ``serve.py``."""
        return self._request("GET", f"/endpoints/{quote(name, safe='')}/revisions/{number}/source").text

    def logs(self, name: str, replica: str = "latest", *, tail: int = 200) -> str:
        """The last lines of a replica's log."""
        path = f"/endpoints/{quote(name, safe='')}/replicas/{quote(replica, safe='')}/logs"
        return self._request("GET", path, params={"tail": tail}).text

    def events(self, name: str, *, after: int = 0, limit: int = 200) -> list[dict[str, Any]]:
        """What happened, oldest first."""
        path = f"/endpoints/{quote(name, safe='')}/events"
        return list(self._json("GET", path, params={"after": after, "limit": limit})["items"])

    def plan(self, spec: dict[str, Any]) -> dict[str, Any]:
        """What would run, and why."""
        return self._json("POST", "/plans", json=spec)

    def keys(self) -> list[dict[str, Any]]:
        """All keys, without secrets."""
        return list(self._json("GET", "/keys")["items"])

    def create_key(self, body: dict[str, Any]) -> dict[str, Any]:
        """Make a key; its secret is in the answer."""
        return self._json("POST", "/keys", json=body)

    def revoke_key(self, name: str) -> dict[str, Any]:
        """Revoke a key by id or name."""
        return self._json("DELETE", f"/keys/{quote(name, safe='')}")

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        return dict(self._request(method, path, **options).json())

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, _PREFIX + path, **options)
        except httpx.TransportError as error:
            remedy = "Start it with: outrider up" if self.local else "Check OUTRIDER_URL and the network."
            why = "nothing listens" if isinstance(error, httpx.ConnectError) else type(error).__name__
            raise ControllerUnreachable("The controller does not answer", why=why, remedy=remedy) from error
        if response.is_error:
            raise from_problem(response)
        return response


def from_problem(response: httpx.Response) -> OutriderError:
    """The error that the server raised, as the same class."""
    try:
        problem = dict(response.json())
    except ValueError:
        problem = {"title": f"HTTP {response.status_code}", "detail": response.text[:200]}
    return rebuild(problem)


def rebuild(problem: dict[str, Any]) -> OutriderError:
    """An error from its problem details."""
    kind = {found.code: found for found in _classes(OutriderError)}.get(problem.get("code", ""), OutriderError)
    error = OutriderError.__new__(kind)
    OutriderError.__init__(
        error,
        str(problem.get("title", "The request failed")),
        why=problem.get("detail"),
        remedy=problem.get("remedy"),
        details=problem.get("details"),
    )
    return error


def _classes(root: type[OutriderError]) -> Iterator[type[OutriderError]]:
    yield root
    for child in root.__subclasses__():
        yield from _classes(child)
