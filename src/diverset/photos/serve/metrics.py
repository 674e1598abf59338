"""The outermost middleware: counts and times every response, and adds security headers."""

from __future__ import annotations

import asyncio
import logging
import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diverset.photos.serve.error_responses import busy_response, error_response

log = logging.getLogger("diverset.photos.serve")
BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class MetricsMiddleware:
    """Counts and times responses; unexpected exceptions are logged and answered with 500."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self.app = app
        self.responses = Counter(
            "diverset_requests", "Responses", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "diverset_seconds", "Response time", ["path"], buckets=BUCKETS, registry=registry
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, started = 0, time.perf_counter()

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                # The page is several files: old ones must not meet new ones after an upgrade.
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except asyncio.CancelledError:  # only when the server is stopped
            if not status:
                await busy_response()(scope, receive, send_with_headers)
        except Exception:
            log.exception("internal error: no response for %r", scope["path"])
            if not status:
                response = error_response(500, "internal error; see the server's log")
                await response(scope, receive, send_with_headers)
            status = 500
        finally:
            # Patterns of routes, not paths: a client cannot create new labels at will.
            path = getattr(scope.get("route"), "path", "other")
            self.seconds.labels(path).observe(time.perf_counter() - started)
            self.responses.labels(path, status).inc()
