"""``Client``: every call of the REST API, over the local Unix socket or to a remote controller."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from outrider.client.auth import Address
from outrider.client.problems import rebuild
from outrider.client.stream import event_data
from outrider.errors import ControllerUnreachable, InvalidInput, PermissionRefused, Unavailable
from outrider.spec.names import check_name

View = dict[str, Any]
"""A JSON object of the API; ``docs/reference/openapi.json`` has the shapes."""

_CONNECT = 5.0
_ANSWER = 60.0
"""Seconds to wait for an answer. The slowest call reads a ``serve.py`` in a child, which may take 20 s."""


class Client:
    """Talks to one controller. Not for use by several threads at once.

    Args:
        url: of a remote controller; None: ``OUTRIDER_URL``, else the local Unix socket.
        key: for a remote one; None: ``OUTRIDER_KEY``.
        address: where to connect, whatever ``url``, ``key`` and the environment say.
        timeout: seconds to wait for an answer.

    Every method raises the :class:`~outrider.errors.OutriderError` that the controller answered, or
    ControllerUnreachable where none answers.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        address: Address | None = None,
        timeout: float = _ANSWER,
    ) -> None:
        given = {name: text for name, text in (("OUTRIDER_URL", url), ("OUTRIDER_KEY", key)) if text}
        self.address = address or Address.from_environment({**os.environ, **given})
        self._timeout = timeout
        path = self.address.socket
        headers = {"Authorization": f"Bearer {self.address.key}"} if self.address.key else {}
        self._http = httpx.Client(
            base_url=self.address.url,
            headers=headers,
            timeout=httpx.Timeout(timeout, connect=min(timeout, _CONNECT)),
            transport=httpx.HTTPTransport(uds=str(path)) if path else None,
            trust_env=path is None,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def local(self) -> bool:
        """Whether it speaks to this machine's own controller."""
        return self.address.local

    def reachable(self) -> bool:
        """Whether a controller answers. Raises what is wrong otherwise, such as PermissionRefused or Unauthorized."""
        try:
            self.status()
        except ControllerUnreachable:
            return False
        return True

    def status(self) -> View:
        """Version, controller, gateway and counts."""
        return self._object("GET", "/status")

    def nodes(self) -> list[View]:
        """The machines that replicas can run on."""
        return self._items("/nodes")

    def endpoints(self) -> list[View]:
        """All endpoints."""
        return self._items("/endpoints")

    def endpoint(self, name: str) -> View:
        """One endpoint."""
        return self._object("GET", _endpoint(name))

    def put(
        self,
        name: str,
        spec: Mapping[str, Any],
        *,
        create: bool = False,
        replace_source: bool = False,
        generation: int | None = None,
    ) -> View:
        """Make an endpoint, or give it a new spec.

        Args:
            create: refuse if there is one already (EndpointExists).
            replace_source: overwrite an edited ``serve.py`` (else SourceEdited).
            generation: refuse if the endpoint is at another one (GenerationMismatch).
        """
        headers = {} if generation is None else {"If-Match": f'"{generation}"'}
        query = {"create": create, "replace_source": replace_source}
        return self._object("PUT", _endpoint(name), params=query, headers=headers, body=dict(spec))

    def propose(self, name: str, spec: Mapping[str, Any], *, replace_source: bool = False) -> View:
        """What :meth:`put` would change, field by field; raises what it would raise, and changes nothing."""
        query = {"dry_run": True, "replace_source": replace_source}
        return self._object("PUT", _endpoint(name), params=query, body=dict(spec))

    def delete(self, name: str, *, purge: bool = False) -> None:
        """Remove an endpoint, its revisions and events; refused (Conflict) without ``purge``."""
        self._send("DELETE", _endpoint(name), params={"purge": purge})

    def act(self, name: str, action: str, body: View | None = None) -> View:
        """``stop`` (drain; everything else stays), ``start`` or ``rollback`` (``{"revision": n}``)."""
        return self._object("POST", f"{_endpoint(name)}:{action}", body=body or {})

    def deploy(self, source: str, name: str | None = None) -> View:
        """Deploy a ``serve.py`` to the endpoint its App names (it must be ``name`` where given), made if absent."""
        if name is None:
            return self._object("POST", "/deployments", body={"source": source})
        return self._object("POST", f"{_endpoint(name)}/revisions", params={"create": True}, body={"source": source})

    def revisions(self, name: str) -> list[View]:
        """All revisions of an endpoint, oldest first."""
        return self._items(f"{_endpoint(name)}/revisions")

    def revision(self, name: str, number: str | int = "current") -> View:
        """One revision (``current``: the wanted one) with its plan and declaration."""
        return self._object("GET", _revision(name, number))

    def source(self, name: str, number: str | int = "current") -> str:
        """The ``serve.py`` of a revision (``current``: the wanted one), to the byte."""
        return self._send("GET", f"{_revision(name, number)}/source").content.decode()

    def replicas(self, name: str) -> list[View]:
        """The replicas of an endpoint."""
        return self._items(f"{_endpoint(name)}/replicas")

    def engine(self, name: str) -> View:
        """``url`` and ``key`` of a ready replica's engine, past the gateway; reachable on the replica's host only."""
        return self._object("GET", f"{_endpoint(name)}/engine")

    def stats(self, name: str) -> View:
        """What happened at an endpoint and each of its replicas within the last minute; None is unknown, never zero."""
        return self._object("GET", f"{_endpoint(name)}/stats")

    def logs(self, name: str, replica: str = "latest", *, tail: int = 200) -> str:
        """The last lines of a replica's log."""
        path = f"{_endpoint(name)}/replicas/{_segment(replica)}/logs"
        return self._send("GET", path, params={"tail": tail}).text

    def follow_logs(self, name: str, replica: str = "latest", *, tail: int = 200) -> Iterator[View]:
        """A replica's log as it grows: ``{"replica": id, "lines": […]}``, an entry without lines where one begins.

        With ``latest`` it goes on with the next replica (id None: there is none yet). It ends when the endpoint is
        removed or the named replica is gone; ControllerUnreachable when the controller goes.
        """
        return self._follow(f"{_endpoint(name)}/replicas/{_segment(replica)}/logs", {"tail": tail})

    def events(self, name: str, *, after: int = 0, limit: int = 200) -> list[View]:
        """Events of an endpoint, oldest first: the newest, or the next ones after an id."""
        return self._items(f"{_endpoint(name)}/events", params={"after": after, "limit": limit})

    def follow_events(self, name: str, *, after: int = 0) -> Iterator[View]:
        """Events as they happen, until the caller stops or the controller goes (Unavailable)."""
        return self._follow(f"{_endpoint(name)}/events", {"after": after})

    def _follow(self, path: str, params: Mapping[str, Any]) -> Iterator[View]:
        headers = {"Accept": "text/event-stream"}
        timeout = httpx.Timeout(None, connect=_CONNECT)
        self._require_listener()
        try:
            with self._http.stream("GET", path, params=params, headers=headers, timeout=timeout) as response:
                if response.is_error:
                    response.read()
                self._check(response)
                for data in event_data(response.iter_lines()):
                    yield json.loads(data)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def plan(self, spec: Mapping[str, Any]) -> View:
        """What an endpoint of this spec would run, with every reason; nothing is changed."""
        return self._object("POST", "/plans", body=dict(spec))

    def recipes(self) -> list[View]:
        """Every recipe known there."""
        return self._items("/recipes")

    def recipe(self, identifier: str) -> View:
        """One recipe; ids hold slashes."""
        return self._object("GET", "/recipes/" + "/".join(_segment(part) for part in identifier.split("/")))

    def keys(self) -> list[View]:
        """All keys, revoked ones too; never a secret."""
        return self._items("/keys")

    def create_key(self, body: View) -> View:
        """Make a key (``name``, ``scopes``, ``endpoints``, ``limits``, ``expires_at``); its ``secret`` is told once."""
        return self._object("POST", "/keys", body=body)

    def revoke_key(self, name: str) -> View:
        """Revoke a key by id or name."""
        return self._object("DELETE", f"/keys/{_segment(name)}")

    def drafters(self) -> list[View]:
        """All drafters of the registry, oldest first."""
        return self._items("/drafters")

    def add_drafter(self, reference: str, name: str | None = None) -> View:
        """Take a drafter into the registry, by a reference that the controller's machine can read."""
        return self._object("POST", "/drafters", body={"reference": reference, "name": name})

    def remove_drafter(self, name: str) -> View:
        """Forget a drafter; its weights stay in the cache."""
        return self._object("DELETE", f"/drafters/{_segment(name)}")

    def add_and_use_drafter(
        self, reference: str, name: str | None = None, *, endpoint: str | None = None, target: str | None = None
    ) -> View:
        """Take a drafter in and bind it, or neither."""
        new, binding = {"reference": reference, "name": name}, {"endpoint": endpoint, "target": target}
        return self._object("POST", "/drafters:use", body={"new": new, "binding": binding})

    def use_drafter(self, name: str, *, endpoint: str | None = None, target: str | None = None) -> View:
        """Bind a drafter to the weights of an endpoint, or to a target by reference, recipe or model."""
        body = {"endpoint": endpoint, "target": target}
        return self._object("POST", f"/drafters/{_segment(name)}:use", body=body)

    def _items(self, path: str, *, params: Mapping[str, Any] | None = None) -> list[View]:
        items = self._object("GET", path, params=params).get("items")
        if not isinstance(items, list):
            raise self._strange("the answer holds no items")
        return items

    def _object(self, method: str, path: str, **options: Any) -> View:
        try:
            answer = self._send(method, path, **options).json()
        except ValueError as error:
            raise self._strange("the answer is no JSON") from error
        if not isinstance(answer, dict):
            raise self._strange("the answer is no JSON object")
        return answer

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        body: View | None = None,
    ) -> httpx.Response:
        self._require_listener()
        try:
            response = self._http.request(method, path, params=params, headers=headers, json=body)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        return self._check(response)

    def _check(self, response: httpx.Response) -> httpx.Response:
        if response.is_success:
            return response
        try:
            problem = response.json()
        except ValueError:
            problem = None
        if isinstance(problem, dict) and "title" in problem:
            raise rebuild({"status": response.status_code, **problem})
        raise self._strange(f"it answered {response.status_code} {response.reason_phrase}")

    def _strange(self, why: str) -> Unavailable:
        return Unavailable(
            f"What answers at {self.address} is no Outrider controller", why=why, remedy="Check OUTRIDER_URL."
        )

    def _require_listener(self) -> None:
        """Look whether the socket answers, since httpcore leaves its own open when it does not."""
        if self.address.socket is None:
            return
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(min(self._timeout, _CONNECT))
            try:
                probe.connect(str(self.address.socket))
            except PermissionError as error:
                raise PermissionRefused(
                    f"May not connect to {self.address}",
                    why=error.strerror,
                    remedy="Run as the user who started Outrider.",
                ) from error
            except OSError as error:
                raise self._absent() from error

    def _absent(self) -> ControllerUnreachable:
        remedy = "Start it with: outrider up" if self.local else "Check OUTRIDER_URL, and that it is up there."
        return ControllerUnreachable("No controller answers", why=f"nothing listens at {self.address}", remedy=remedy)

    def _unreachable(self, error: httpx.TransportError) -> ControllerUnreachable:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return self._absent()
        if isinstance(error, httpx.TimeoutException):
            why = f"{self.address} took longer than {self._timeout:g} s"
            return ControllerUnreachable("The controller does not answer", why=why, remedy="See: outrider status")
        why = str(error) or type(error).__name__
        return ControllerUnreachable("The controller went away", why=why, remedy="See: outrider status")


def _endpoint(name: str) -> str:
    return f"/endpoints/{check_name(name)}"


def _revision(name: str, number: str | int) -> str:
    return f"{_endpoint(name)}/revisions/{_segment(str(number))}"


def _segment(text: str) -> str:
    if text in ("", ".", ".."):
        raise InvalidInput(f"{text!r} is no name", remedy="Give the name or id as the listing shows it.")
    return quote(text, safe="")
