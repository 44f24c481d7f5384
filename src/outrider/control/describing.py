"""Reading a ``serve.py`` without trusting it: ``runner --describe`` in a child without secrets, within 20 s."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from outrider import errors
from outrider.errors import InvalidSource

_TIMEOUT = 20.0
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "OUTRIDER_CACHE")


def describe_source(source: str, *, timeout: float = _TIMEOUT) -> dict[str, Any]:
    """The declaration of a file, as :func:`outrider.app.source.describe` gives it.

    Raises:
        InvalidSource: it raises, hangs, exits or declares no server.
    """
    with tempfile.TemporaryDirectory(prefix="outrider-describe-") as directory:
        path = Path(directory) / "serve.py"
        try:
            path.write_text(source, encoding="utf-8")
        except UnicodeEncodeError as error:
            raise InvalidSource(
                "serve.py cannot be written", why=str(error), remedy="Send text of whole characters."
            ) from error
        text = _run([sys.executable, "-m", "outrider.app.runner", str(path), "--describe"], directory, timeout)
    try:
        answer = dict(json.loads(text.strip().splitlines()[-1]))
    except (ValueError, TypeError, IndexError):
        raise InvalidSource(
            "serve.py ended before it could be read",
            why=(text.strip().splitlines() or ["no output"])[-1][:200],
            remedy="It is imported to read its declaration: start things in @outrider.enter(), not at import.",
        ) from None
    if "code" in answer:
        raise _rebuilt(answer)
    return answer


def digest(source: str, plan: Any, declaration: dict[str, Any]) -> str:
    """SHA-256 of {serve.py, plan, weight digests, environment lock} (decision 8)."""
    parts = [source, plan, declaration.get("weights"), declaration.get("environment")]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _run(argv: list[str], directory: str, timeout: float) -> str:
    env = {name: os.environ[name] for name in _KEPT if name in os.environ} | {"PYTHONDONTWRITEBYTECODE": "1"}
    child = subprocess.Popen(
        argv,
        cwd=directory,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return child.communicate(timeout=timeout)[0].decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        raise InvalidSource(
            f"serve.py was not read within {timeout:g} s",
            why="its import does not end",
            remedy="Start servers in @outrider.enter(), not at import.",
        ) from None
    finally:
        # Whatever the import started is in the child's session, and goes with it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def _rebuilt(problem: dict[str, Any]) -> errors.OutriderError:
    kinds = {
        kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, InvalidSource)
    }
    kind = kinds.get(problem["code"], InvalidSource)
    return kind(problem["title"], why=problem.get("detail"), remedy=problem.get("remedy"))
