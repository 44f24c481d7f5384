"""Errors as RFC 9457 problem details: ours, the framework's, and those that nobody foresaw."""

from __future__ import annotations

import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from outrider.errors import InvalidInput, MethodNotAllowed, NotFound, OutriderError

_MAP = "See /api/v1/openapi.json for what there is."
_SHAPE = "Nothing was changed; correct it: /api/v1/openapi.json says what is taken."


def install(app: FastAPI) -> None:
    """Answer every error in one shape."""

    @app.exception_handler(OutriderError)
    async def ours(_: Request, error: OutriderError) -> JSONResponse:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        bad = [_field(entry) for entry in error.errors()]
        why = "; ".join(f"{entry['field']}: {entry['message']}" for entry in bad)
        return answer(InvalidInput("The request is not valid", why=why, remedy=_SHAPE, details={"problems": bad}))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, OutriderError):  # raised while the framework read the body
            return answer(error.__cause__)
        where = f"{request.method} {request.url.path[:200]}"
        if error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "")
            return answer(MethodNotAllowed(f"{where} does not exist", why=f"the path takes {allowed}"), error.headers)
        if error.status_code == 404:
            return answer(NotFound(f"{where} does not exist", remedy=_MAP))
        return answer(InvalidInput("The request is not valid", why=str(error.detail), remedy=_SHAPE))

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> JSONResponse:
        # The server logs its traceback; whoever asked learns no more than that it is not their fault.
        return answer(OutriderError("This should not have happened", why="the controller's code failed"))


def answer(error: OutriderError, headers: Any = None) -> JSONResponse:
    """The response of an error."""
    return JSONResponse(
        error.problem(), status_code=error.status, headers=headers, media_type="application/problem+json"
    )


def _field(error: dict[str, Any]) -> dict[str, str]:
    """One of pydantic's errors without its jargon: where, and what is allowed."""
    message = re.sub(r"^Value error, |^Input should be ", "", str(error["msg"]))
    if error["type"] == "json_invalid":
        message = f"no valid JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
        return {"field": "body", "message": message}
    if error["type"] in ("model_attributes_type", "dict_type"):
        message = "a JSON object, sent as application/json"
    message = {"extra_forbidden": "unknown", "missing": "required"}.get(error["type"], message)
    return {"field": ".".join(map(str, error["loc"])), "message": message}
