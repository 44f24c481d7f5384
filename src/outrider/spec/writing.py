"""Writing under the home or the cache, where the operating system may refuse."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outrider.errors import DiskFull, MachineFault, OutriderError, PermissionRefused


@contextmanager
def guard(where: Path) -> Iterator[None]:
    """Turn the operating system's refusals to write under ``where`` into DiskFull, PermissionRefused, MachineFault."""
    try:
        yield
    except OutriderError:
        raise
    except OSError as error:
        remedy = "Set OUTRIDER_CACHE to a directory you may write."
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "Free some space, or set OUTRIDER_CACHE to another disk."
            raise DiskFull(f"No space left under {where}", why=error.strerror, remedy=remedy) from error
        refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        kind = PermissionRefused if refused else MachineFault
        raise kind(f"Cannot write under {where}", why=error.strerror or str(error), remedy=remedy) from error
