"""What is said where there is no answer: a status, and words that repeat nothing that was sent.

Numbers without end and halves of letters are legal in a request and illegal in an answer, so that
an answer that repeats them would break itself.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from diverset.errors import DiversetError, IndexFileError, NotFoundError

MOST = 8  # mistakes that are named


def add_refusals(app: FastAPI) -> None:
    """Answer what diverset raises, and questions that do not fit the schema."""

    @app.exception_handler(DiversetError)
    async def refused(_: Request, error: DiversetError) -> JSONResponse:
        missing, broken = isinstance(error, NotFoundError), isinstance(error, IndexFileError)
        return said(404 if missing else 503 if broken else 422, _printable(str(error)))

    @app.exception_handler(RequestValidationError)
    async def unfit(_: Request, error: RequestValidationError) -> JSONResponse:
        found = error.errors()[:MOST]
        return said(422, [{"where": _place(one["loc"]), "message": one["msg"]} for one in found])


def said(status: int, detail: Any) -> JSONResponse:
    """An answer in the form that every refusal has."""
    return JSONResponse({"detail": detail}, status)


def _place(path: tuple[object, ...]) -> str:
    """Where in the request; names of fields are the sender's, so they are cut and escaped."""
    return _printable(".".join(map(str, path)))[:100]


def _printable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
