"""Where the API is and which key opens it: ``OUTRIDER_URL`` and ``OUTRIDER_KEY``, or the local Unix socket."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from outrider.errors import UsageError
from outrider.spec.home import Home

PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class Address:
    """Where a controller answers.

    Attributes:
        url: base of the API, ends in ``/api/v1``.
        socket: the Unix socket to speak over; None: TCP to ``url``.
        key: sent as bearer; None locally, where the same user needs none.
    """

    url: str
    socket: Path | None = None
    key: str | None = field(default=None, repr=False)

    @property
    def local(self) -> bool:
        """Whether it is this machine's own controller."""
        return self.socket is not None

    def __str__(self) -> str:
        """For people: the socket or the URL."""
        return str(self.socket or self.url)

    @classmethod
    def at_socket(cls, socket: Path) -> Address:
        """A controller of this machine."""
        return cls(f"http://outrider{PREFIX}", socket)

    @classmethod
    def at_url(cls, url: str, key: str | None = None) -> Address:
        """A controller elsewhere. ``url`` with or without ``/api/v1``.

        Raises:
            UsageError: it is no http(s) URL, or carries a password.
        """
        example = "For example: https://outrider.example.com"
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError as error:
            raise UsageError(f"{url!r} is no URL", why=str(error), remedy=example) from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url!r} is no http or https URL", remedy=example)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UsageError("The URL must be a plain base", why="it has more than host, port and path", remedy=example)
        base = url.rstrip("/")
        return cls(base if base.endswith(PREFIX) else base + PREFIX, None, key)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Address:
        """``OUTRIDER_URL`` (with ``OUTRIDER_KEY``) where set; else the socket of ``OUTRIDER_HOME``."""
        env = os.environ if environ is None else environ
        url = env.get("OUTRIDER_URL")
        if url:
            return cls.at_url(url, env.get("OUTRIDER_KEY") or None)
        return cls.at_socket(Home.from_environment(env).api_socket)
