"""Who may ask, and how much they may send.

On the loopback interface nobody needs a token, but a page of another site must not be able to ask
through the user's browser: the Host header has to name this machine, and what browsers tell of
where a request comes from has to name this server. Elsewhere a token is needed.
"""

from __future__ import annotations

import hmac
import ipaddress
import logging
import re
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diverset.errors import OptionError
from diverset.serve.refusals import said

log = logging.getLogger("diverset.serve")
OPEN = ("/health", "/ready")  # for who watches over processes
COOKIE = "diverset_token"
QUESTION = 64 * 2**10  # bytes; the schema allows less
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+))(?::\d*)?", re.IGNORECASE)


@dataclass(frozen=True)
class Limits:
    """What an upload may be."""

    bytes: int = 20 * 2**20
    pixels: int = 50_000_000


class Guard:
    """Refuses strangers, foreign hosts and pages, and bodies above the limit."""

    def __init__(self, app: ASGIApp, token: str, limits: Limits) -> None:
        self.app, self.token, self.limits = app, token, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        most = self._most(scope, headers)
        refusal = self._refusal(scope, headers, most)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        taken, started = 0, False

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > most:
                return {"type": "http.disconnect"}  # the application reads no further
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            if taken <= most or started:
                started = True
                await send(message)

        try:
            await self.app(scope, counted, noted)
        finally:
            if taken > most and not started:
                await _too_large(scope, most)(scope, receive, send)

    def _most(self, scope: Scope, headers: Headers) -> int:
        """Bytes that a body may have: a picture where one is sent, else a question."""
        kind = headers.get("content-type", "")
        upload = scope["path"] == "/similar" and kind.startswith("multipart/form-data")
        return self.limits.bytes if upload else QUESTION

    def _refusal(self, scope: Scope, headers: Headers, most: int) -> Response | None:
        if scope["path"] in OPEN:
            return None
        if is_foreign(scope, headers):
            log.warning("refused: a page of %r", headers.get("origin", "another site"))
            return said(403, "this server answers to its own page only, not to other sites")
        if self.token:
            refusal = self._without_token(scope, headers)
            if refusal is not None:
                return refusal
        elif not is_loopback(host_of(headers.get("host", ""))):
            log.warning("refused: host %r", headers.get("host"))
            return said(403, "this server answers to localhost only; start it with --host")
        size = headers.get("content-length", "0")
        return _too_large(scope, most) if size.isdecimal() and int(size) > most else None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        kept = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        sent = headers.get("authorization", "").removeprefix("Bearer ")
        if self._is_token(asked) and scope["path"] == "/":
            answer = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, asked, httponly=True, samesite="strict")
            return answer
        if self._is_token(sent) or self._is_token(kept):
            return None
        log.warning("refused: no token for %r", scope["path"])
        return said(401, "give the token: Authorization: Bearer ..., or open /?token=...")

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


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
    """The name in a Host header; empty where it is none.

    >>> [host_of(one) for one in ("localhost:8000", "[::1]:80", "127.0.0.1", "[::1]evil.example")]
    ['localhost', '::1', '127.0.0.1', '']
    """
    found = HOST.fullmatch(header)
    return (found[1] or found[2]).lower() if found else ""


def is_foreign(scope: Scope, headers: Headers) -> bool:
    """Whether a browser says that a page of another site asks; links to the page are followed."""
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        link = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        return not link or scope["path"] != "/"
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host", "").lower()


def _too_large(scope: Scope, most: int) -> Response:
    log.warning("refused: more than %d bytes for %r", most, scope["path"])
    return said(413, f"a body may have {most:,} bytes here; send less, or a smaller picture")
