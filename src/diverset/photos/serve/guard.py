"""Access control: who sends a request, and from which page.

Every request needs the token, or the cookie that a browser gets for it. Where the token is switched
off, which is only possible on the loopback interface, the Host header must name this machine. In
both cases a page of another site must not be able to send requests through the user's browser:
Origin and Sec-Fetch-Site must name this server.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from diverset.errors import OptionError
from diverset.photos.serve.error_responses import error_response
from diverset.photos.serve.session import SECONDS, TOKEN, Sessions, bearer_token

log = logging.getLogger("diverset.photos.serve")
UNPROTECTED = ("/health", "/ready")  # for monitoring
MIN_TOKEN = 16  # characters
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^:\[\]]+))(?::\d*)?", re.IGNORECASE)


class Guard:
    """Rejects requests without the token, of other hosts and of pages of other sites."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app, self.sessions = app, None if token is None else Sessions(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rejection = None
        if scope["type"] == "http" and scope["path"] not in UNPROTECTED:
            rejection = self._rejection(scope, Headers(scope=scope))
        await (rejection or self.app)(scope, receive, send)

    def _rejection(self, scope: Scope, headers: Headers) -> Response | None:
        if is_cross_site(scope, headers):
            log.warning("rejected: a page of %r", headers.get("origin", "another site"))
            return error_response(
                403, "only the page of this server may send requests, not other sites"
            )
        if self.sessions is not None:
            return _check_token(self.sessions, scope, headers)
        if not is_loopback(host_of(headers.get("host", ""))):
            log.warning("rejected: host %r", headers.get("host"))
            return error_response(403, "only localhost is served; start the server with --host")
        return None


def _check_token(sessions: Sessions, scope: Scope, headers: Headers) -> Response | None:
    """The response to a request without a valid token or cookie, or to a link with a token."""
    cookie = f"diverset_session_{(scope.get('server') or ('', 0))[1]}"  # browsers ignore the port
    address = (scope.get("client") or ("unknown", 0))[0]
    in_url = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
    is_link = scope["path"] == "/" and in_url != ""
    if not is_link and sessions.is_cookie(cookie_parser(headers.get("cookie", "")).get(cookie, "")):
        return None
    given = in_url if is_link else bearer_token(headers.get("authorization", ""))
    if given is not None and sessions.is_blocked(address):
        log.warning("rejected: too many wrong tokens from %r", address)
        return error_response(429, "too many wrong tokens; wait a minute", {"Retry-After": "60"})
    if given is not None and sessions.is_token(given, address):
        if not is_link:
            return None
        response = RedirectResponse("/", 303)
        secure = scope["scheme"] == "https"
        response.set_cookie(
            cookie, sessions.new_cookie(), SECONDS, httponly=True, samesite="strict", secure=secure
        )
        return response
    log.warning("rejected: %s for %r", "wrong token" if given else "no token", scope["path"])
    challenge = 'Bearer realm="diverset"' + (', error="invalid_token"' if given else "")
    return error_response(
        401,
        "a token is needed: open the link that diverset serve has printed, or send "
        "Authorization: Bearer ...",
        {"WWW-Authenticate": challenge},
    )


def check_binding(host: str, token: str | None) -> None:
    """Raise if a server at this address would be unprotected."""
    if token is None:
        if not is_loopback(host):
            raise OptionError(
                f"--host {host} can be reached from other machines; leave out --no-token, or --host"
            )
    elif len(token) < MIN_TOKEN:
        raise OptionError(f"the token has {len(token)} characters; give {MIN_TOKEN} or more")
    elif not re.fullmatch(TOKEN, token):
        raise OptionError("the token may have letters, digits and -._~+/ only; choose another")


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(host) for host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", "evil.example")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The host name in a Host header; empty if it is malformed.

    >>> [host_of(header) for header in ("localhost:8000", "[::1]:80", "::1", "[::1]evil")]
    ['localhost', '::1', '', '']
    """
    match = HOST.fullmatch(header)
    return (match[1] or match[2]).lower() if match else ""


def is_cross_site(scope: Scope, headers: Headers) -> bool:
    """Whether a browser sends a request for a page of another site; links to `/` are allowed."""
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        link = headers.get("sec-fetch-mode") == "navigate" and scope["method"] == "GET"
        return not link or scope["path"] != "/"
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host", "").lower()
