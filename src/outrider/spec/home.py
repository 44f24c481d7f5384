"""Where things lie on this machine.

``OUTRIDER_HOME`` (default ``~/.local/state/outrider``, mode 0700) holds what must survive; ``OUTRIDER_CACHE`` (default
``~/.cache/outrider``) what can be made again. Unix socket paths are bounded at 107 bytes by the kernel, so sockets live
in a short directory of their own, named by a digest of the home.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from outrider.errors import PermissionRefused

_SOCKET_PATH_LIMIT = 107
_LONGEST_SOCKET_NAME = "/r-0123456789abcdef.sock"


@dataclass(frozen=True, slots=True)
class Home:
    """The directories of one Outrider.

    Attributes:
        root: ``OUTRIDER_HOME``.
        cache: ``OUTRIDER_CACHE``; may be shared by several homes.
        sockets: short directory for Unix sockets, 0700.
    """

    root: Path
    cache: Path
    sockets: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Home:
        """Read ``OUTRIDER_HOME``, ``OUTRIDER_CACHE`` and ``XDG_RUNTIME_DIR``."""
        env = os.environ if environ is None else environ
        user = Path(env.get("HOME") or Path.home())
        root = Path(env.get("OUTRIDER_HOME") or user / ".local/state/outrider").expanduser().absolute()
        cache = Path(env.get("OUTRIDER_CACHE") or user / ".cache/outrider").expanduser().absolute()
        digest = hashlib.sha256(str(root).encode()).hexdigest()[:12]
        return cls(root, cache, _socket_directory(env, digest))

    @property
    def store(self) -> Path:
        """The SQLite file."""
        return self.root / "store.db"

    @property
    def revisions(self) -> Path:
        """``NAME/N/serve.py``, one directory a revision."""
        return self.root / "revisions"

    @property
    def replicas(self) -> Path:
        """``ID/``, one directory a replica: its state, its exit, its logs."""
        return self.root / "replicas"

    @property
    def run(self) -> Path:
        """Pid files with locks, and the gateway's last table."""
        return self.root / "run"

    @property
    def api_socket(self) -> Path:
        """Where the local CLI and SDK reach the API without a key."""
        return self.sockets / "api.sock"

    @property
    def gateway_socket(self) -> Path:
        """Where the gateway dials the controller."""
        return self.sockets / "gateway.sock"

    def replica_socket(self, replica: str) -> Path:
        """The runner's control address of one replica."""
        return self.sockets / f"r-{replica}.sock"

    def create(self) -> None:
        """Make every directory, private to the user.

        Raises:
            PermissionRefused: one cannot be made or is somebody else's.
        """
        for directory in (self.root, self.revisions, self.replicas, self.run, self.sockets):
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                if directory.stat().st_uid != os.getuid():
                    raise PermissionError(f"{directory} belongs to another user")
                if not os.access(directory, os.W_OK | os.X_OK):
                    raise PermissionError(f"{directory} is not writable")
            except OSError as error:
                raise PermissionRefused(
                    f"Cannot use {directory}",
                    why=error.strerror or str(error),
                    remedy="Set OUTRIDER_HOME to a directory you may write.",
                ) from error


def _socket_directory(env: Mapping[str, str], digest: str) -> Path:
    runtime = env.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        candidate = Path(runtime) / f"outrider-{digest}"
        if len(f"{candidate}{_LONGEST_SOCKET_NAME}".encode()) <= _SOCKET_PATH_LIMIT:
            return candidate
    name = f"outrider-{os.getuid()}-{digest}"
    candidate = Path(tempfile.gettempdir()) / name
    if len(f"{candidate}{_LONGEST_SOCKET_NAME}".encode()) <= _SOCKET_PATH_LIMIT:
        return candidate
    return Path("/tmp") / name  # a long TMPDIR must not make sockets impossible
