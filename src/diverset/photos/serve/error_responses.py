"""Responses to requests that cannot be answered: a status, and text that repeats nothing of the
request.

NaN and lone surrogates are legal in a request and illegal in a response, so a response that
repeats them could not be sent.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from diverset.errors import DiversetError, IndexFileError, NotFoundError

log = logging.getLogger("diverset.photos.serve")
MAX_ERRORS = 8  # of one request
UNKNOWN_FIELD = "extra_forbidden"  # pydantic's name of this error


def add_error_handlers(app: FastAPI) -> None:
    """Answer diverset's errors, and requests that do not match the schema."""

    @app.exception_handler(DiversetError)
    async def handle_error(_: Request, error: DiversetError) -> JSONResponse:
        text = _printable(str(error))
        if isinstance(error, IndexFileError):
            log.error("unavailable: %s", text)
            return error_response(503, text)
        return error_response(404 if isinstance(error, NotFoundError) else 422, text)

    @app.exception_handler(RequestValidationError)
    async def handle_invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        errors = error.errors()[:MAX_ERRORS]
        return error_response(
            422, [{"field": _field(error["loc"]), "message": _message(error)} for error in errors]
        )


def error_response(
    status: int, detail: Any, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """The common form of all error responses."""
    return JSONResponse({"detail": detail}, status, headers)


def busy_response() -> JSONResponse:
    """The response to requests that the server has no time for."""
    return error_response(503, "the server is busy; try again", {"Retry-After": "2"})


async def reject_query(request: Request) -> None:
    """A dependency of routes without parameters in the address: raise if there are any."""
    if request.query_params:
        raise RequestValidationError(
            [{"loc": ("query", name), "type": UNKNOWN_FIELD} for name in request.query_params]
        )


def _message(error: dict[str, Any]) -> str:
    if error["type"] == UNKNOWN_FIELD:
        return "unknown field; /docs lists the fields of every route"
    return str(error["msg"])


def _field(path: tuple[object, ...]) -> str:
    """Where in the request; the names come from the sender, so they are escaped and cut."""
    return _printable(".".join(map(str, path)))[:100]


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
