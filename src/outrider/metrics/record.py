"""One finished request, as the gateway saw it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from outrider.metrics.slices import SliceFacts


class Outcome(StrEnum):
    """How a request ended, seen from the gateway."""

    OK = "ok"
    """The replica's answer went through whole, with a status below 500."""
    FAILED = "failed"
    """The replica's answer went through whole, with a status of 500 or above."""
    REFUSED = "refused"
    """The gateway answered itself: wrong key, bad body, no replica in time."""
    CLIENT_GONE = "client_gone"
    """The client closed before the end."""
    UPSTREAM_GONE = "upstream_gone"
    """The replica closed before the end."""
    TIMED_OUT = "timed_out"
    """The gateway ended it: the answer did not begin, did not go on or did not end in time."""


class RequestRecord(NamedTuple):
    """One finished request. A named tuple, because it is made once a request on the hot path.

    Attributes:
        id: the request's ``x-request-id``.
        at: when the request was complete, UTC ms.
        endpoint, revision, replica: who served it; revision and replica None where nobody did.
        key: id of the API key, or None.
        path: inference path, such as ``/v1/chat/completions``.
        status: HTTP status sent to the client, 0 where none was.
        stream: whether a stream was asked for.
        prompt_tokens, completion_tokens: as the engine counted them; None where it did not say.
        waited: seconds held until a replica could take it.
        ttft: seconds to the first content event; streams only.
        itl: seconds per completion token after the first: :func:`itl`. Gaps between events are never called that.
        e2e: seconds from request complete to the last byte.
        overhead: seconds spent inside the gateway itself.
        retries: how many replicas failed before their first byte.
        outcome: how it ended.
        slices: what of the request changes τ, or None where its body is not read.
    """

    id: str
    at: int
    endpoint: str
    revision: int | None
    replica: str | None
    key: str | None
    path: str
    status: int
    stream: bool
    prompt_tokens: int | None
    completion_tokens: int | None
    waited: float
    ttft: float | None
    itl: float | None
    e2e: float
    overhead: float
    retries: int
    outcome: Outcome
    slices: SliceFacts | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; :func:`from_dict` reads it back."""
        fields = self._asdict()
        fields["slices"] = None if self.slices is None else self.slices._asdict()
        return fields


def from_dict(fields: Mapping[str, Any]) -> RequestRecord:
    """Read a record back. Fields of a newer version are ignored.

    Raises:
        KeyError: a field is missing.
        ValueError: the outcome is none of :class:`Outcome`.
    """
    known = {name: fields[name] for name in RequestRecord._fields}
    known["outcome"] = Outcome(known["outcome"])
    slices = known["slices"]
    known["slices"] = None if slices is None else SliceFacts(**{name: slices[name] for name in SliceFacts._fields})
    return RequestRecord(**known)


def itl(first: float | None, last: float | None, completion_tokens: int | None) -> float | None:
    """Inter-token latency of one request: (last − first content event) ÷ (completion tokens − 1), in seconds.

    With speculation one event carries several tokens, so the gap between events says nothing about the speed a user
    feels. None for fewer than two tokens or where the engine did not count them.
    """
    if first is None or last is None or completion_tokens is None or completion_tokens < 2:
        return None
    return (last - first) / (completion_tokens - 1)
