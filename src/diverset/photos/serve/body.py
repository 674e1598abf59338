"""Receiving the body of a request: whole, of a limited size, in a limited time.

The application sees a request once all of it has arrived. A sender that stalls occupies neither a
thread nor a turn of those that compute.
"""

from __future__ import annotations

import asyncio
import logging

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diverset.photos.serve.error_responses import busy_response, error_response
from diverset.photos.serve.limits import MAX_QUERY, Limits

log = logging.getLogger("diverset.photos.serve")


class BodyReader:
    """Passes requests on with their whole body; rejects those that are too large or too slow."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits, self.uploads = app, limits, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_upload = scope["path"] == "/similar" and headers.get("content-type", "").startswith(
            "multipart/form-data"
        )
        if is_upload and self.uploads >= self.limits.uploads:
            log.warning("busy: %d uploads at a time", self.limits.uploads)
            await busy_response()(scope, receive, send)
            return
        self.uploads += is_upload
        try:
            body = await self._read(headers, receive, self.limits.bytes if is_upload else MAX_QUERY)
            if body is None:
                return
            if isinstance(body, Response):
                await body(scope, receive, send)
                return
            await self.app(scope, _replay(body, receive), send)
        finally:
            self.uploads -= is_upload

    async def _read(
        self, headers: Headers, receive: Receive, limit: int
    ) -> bytes | Response | None:
        """The body; or the response that rejects it; None if the connection was closed."""
        size = headers.get("content-length", "0")
        if size.isdecimal() and int(size) > limit:
            return _too_large(limit)
        body, started = bytearray(), asyncio.get_running_loop().time()
        while True:
            allowed = self.limits.body_seconds + len(body) / self.limits.bytes_per_second
            try:
                async with asyncio.timeout_at(started + allowed):
                    message = await receive()
            except TimeoutError:
                log.warning("rejected: a body that arrives too slowly")
                text = "the request did not arrive in time; send it again"
                return error_response(408, text, {"Connection": "close"})
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > limit:
                return _too_large(limit)
            if not message.get("more_body", False):
                return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Gives the body once, then what follows it: the end of the connection."""
    message: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def receive_body() -> Message:
        nonlocal message
        if message is None:
            return await receive()
        first, message = message, None
        return first

    return receive_body


def _too_large(limit: int) -> Response:
    log.warning("rejected: more than %d bytes", limit)
    return error_response(413, f"at most {limit:,} bytes are allowed here; send less")
