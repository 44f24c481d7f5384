"""Importing a ``serve.py``: the only place where a user's code enters a process of ours.

Only a runner does this (decision 6): for real, to run a replica, or in a child without secrets, to describe it.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from outrider._version import __version__
from outrider.app.app import App, Declaration
from outrider.errors import InvalidSource, OutriderError


def load(path: Path) -> tuple[App, type, Declaration]:
    """Import ``path`` and return its app, server class and declaration.

    Raises:
        InvalidSource: the file is missing, raises (the line is named), or declares no server.
    """
    if not path.is_file():
        raise InvalidSource(f"No file {path}", remedy="Give the path of a serve.py.")
    module = _import(path)
    apps = [value for value in vars(module).values() if isinstance(value, App)]
    declared = [app for app in apps if app.server_class is not None]
    if len(declared) != 1:
        raise InvalidSource(
            f"{path.name} declares {len(declared)} servers",
            remedy="One file is one endpoint: one outrider.App and one class under @app.server().",
        )
    app = declared[0]
    assert app.server_class is not None and app.declaration is not None
    return app, app.server_class, app.declaration


def describe(path: Path) -> dict[str, Any]:
    """What a revision needs to know of a file: name, server arguments, engine, weights. JSON-serialisable."""
    app, cls, declaration = load(path)
    engine = getattr(cls, "engine", None)
    return {
        "app": app.name,
        "class": cls.__name__,
        "outrider": __version__,
        "server": declaration.as_dict(),
        "engine": _described(engine),
        "weights": _described(getattr(engine, "weights", None) or getattr(cls, "weights", None)),
        "environment": _described(getattr(engine, "environment", None) or getattr(cls, "environment", None)),
    }


def _described(part: Any) -> dict[str, Any] | None:
    if part is None:
        return None
    if hasattr(part, "describe"):
        value = part.describe()
        return dict(value) if isinstance(value, Mapping) else {"value": value}
    return {"type": type(part).__name__}


def _import(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("serve", path)
    if spec is None or spec.loader is None:
        raise InvalidSource(f"{path.name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules["serve"] = module
    try:
        spec.loader.exec_module(module)
    except OutriderError:
        raise
    except SyntaxError as error:
        raise InvalidSource(
            f"{path.name} line {error.lineno}: {error.msg}", remedy="Correct the line and deploy again."
        ) from error
    except (Exception, SystemExit) as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        where = f" line {frames[-1].lineno}" if frames else ""
        raise InvalidSource(
            f"{path.name}{where}: {_said(error)}", remedy="Correct the line and deploy again."
        ) from error
    return module


def _said(error: BaseException) -> str:
    """What an exception says, in one line."""
    if isinstance(error, ValidationError):
        fields = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        return f"{error.title}: {'; '.join(fields)}"
    return f"{type(error).__name__}: {error}"
