"""How long a request may take, and in which part. Pure: what is measured is an argument."""

from __future__ import annotations

from dataclasses import dataclass

HEADER = b"outrider-timeout"
"""Request header: seconds after which the client itself has no more use for an answer."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Bounds in seconds. All are looked at once a second, so they hold to within one.

    Attributes:
        head: from the first byte of a request to the end of its head. Default 30: a head is one packet or two, so who
            takes longer holds a connection on purpose.
        body: between two pieces of a request's body. Default 60: uploads are slow on bad networks, but they move.
        first_byte: from a request sent to a replica to the first byte of its answer. Default 600: a JSON answer comes
            in one piece when it is complete, and OpenAI's clients wait that long.
        idle: between two pieces of an answer, in either direction: the replica sends none, or the client takes none.
            Default 300: a stream that stands still for that long has been given up by whoever reads it.
        total: from a request to the last byte of its answer. Default 3600: beyond what any answer takes, so that
            nothing is held for ever.
    """

    head: float = 30.0
    body: float = 60.0
    first_byte: float = 600.0
    idle: float = 300.0
    total: float = 3600.0

    def overdue(self, *, age: float, silent: float, answering: bool) -> str | None:
        """What a request at a replica has taken too long with, in words for its client; None while all is well.

        Args:
            age: seconds since the request was complete.
            silent: seconds since it was sent, or since the last piece of its answer.
            answering: whether the answer has begun.
        """
        if age > self.total:
            return f"The answer was not complete within {self.total:g} s"
        if not answering and silent > self.first_byte:
            return f"The replica did not begin its answer within {self.first_byte:g} s"
        if answering and silent > self.idle:
            return f"The answer stood still for {self.idle:g} s"
        return None


def wanted(header: bytes | None) -> float | None:
    """The client's own bound in seconds, from its ``Outrider-Timeout``; None where it sent none that is a number."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        return None
    return seconds if 0 < seconds < 1e6 else None
