"""Who may ask, and how much they may send.

On the loopback interface nobody needs a token, but a page of another site must not be able to ask
through the user's browser: the Host header has to name this machine. Elsewhere a token is needed.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
from dataclasses import dataclass
from http.cookies import SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diverset.errors import OptionError

log = logging.getLogger("diverset.serve")
OPEN = ("/health", "/ready")  # for who watches over processes
COOKIE = "diverset_token"


@dataclass(frozen=True)
class Limits:
    """What an upload may be."""

    bytes: int = 20 * 2**20
    pixels: int = 50_000_000


class Guard:
    """Refuses strangers, foreign hosts and bodies above the limit."""

    def __init__(self, app: ASGIApp, token: str, limits: Limits) -> None:
        self.app, self.token, self.limits = app, token, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        taken, started = 0, False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self.limits.bytes:
                return {"type": "http.disconnect"}  # the application reads no further
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            if taken <= self.limits.bytes or started:
                started = True
                await send(message)

        try:
            await self.app(scope, counted, noted)
        finally:
            if taken > self.limits.bytes and not started:
                await self._too_large(scope)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if scope["path"] in OPEN:
            return None
        if self.token:
            return self._without_token(scope, headers)
        if not is_loopback(host_of(headers.get("host", ""))):
            log.warning("refused: host %r", headers.get("host"))
            return _said(403, "this server answers to localhost only; start it with --host")
        size = headers.get("content-length", "0")
        if size.isdigit() and int(size) > self.limits.bytes:
            return self._too_large(scope)
        return None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        cookies = SimpleCookie(headers.get("cookie", ""))
        kept = cookies[COOKIE].value if COOKIE in cookies else ""
        sent = headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_token(asked) and scope["path"] == "/":
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, asked, httponly=True, samesite="strict")
            return answer
        if self._is_token(sent) or self._is_token(kept):
            return None
        log.warning("refused: no token for %s", scope["path"])
        return _said(401, "give the token: Authorization: Bearer ..., or open /?token=...")

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())

    def _too_large(self, scope: Scope) -> Response:
        log.warning("refused: more than %d bytes for %s", self.limits.bytes, scope["path"])
        return _said(413, f"a body may have {self.limits.bytes:,} bytes; make the picture smaller")


def check_binding(host: str, token: str) -> None:
    """Raise unless a server at this address is protected."""
    if not token and not is_loopback(host):
        raise OptionError(
            f"--host {host} can be reached by others; give --token, or set DIVERSET_TOKEN"
        )
    if token and len(token) < 16:
        raise OptionError(f"the token has {len(token)} characters; give 16 or more")


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(one) for one in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "evil.example")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The name in a Host header.

    >>> host_of("localhost:8000"), host_of("[::1]:80"), host_of("127.0.0.1")
    ('localhost', '::1', '127.0.0.1')
    """
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()


def _said(status: int, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail}, status)
