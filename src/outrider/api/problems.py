"""Errors as RFC 9457 problem details."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from outrider.errors import InvalidInput, NotFound, OutriderError


def install(app: FastAPI) -> None:
    """Answer every error of ours, and FastAPI's own, in one shape."""

    @app.exception_handler(OutriderError)
    async def ours(_: Request, error: OutriderError) -> JSONResponse:
        return _answer(error, error.status)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        bad = [{"field": ".".join(map(str, e["loc"])), "message": e["msg"]} for e in error.errors()]
        why = "; ".join(f"{entry['field']}: {entry['message']}" for entry in bad)
        return _answer(InvalidInput("The request is not valid", why=why, details={"problems": bad}), 422)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        return _answer(
            NotFound(str(error.detail), remedy="See /api/v1/openapi.json for what there is."), error.status_code
        )


def _answer(error: OutriderError, status: int) -> JSONResponse:
    body = error.problem() | {"status": status}
    return JSONResponse(body, status_code=status, media_type="application/problem+json")
