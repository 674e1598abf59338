"""Around everything else: every answer is counted, refusals and failures too, and carries what
browsers have to know of it."""

from __future__ import annotations

import logging
import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diverset.serve.refusals import said

log = logging.getLogger("diverset.serve")
BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob: data:; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Watch:
    """Counts and times answers; what breaks is logged and answered with 500."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self.app = app
        self.answers = Counter(
            "diverset_requests", "Answers", ["path", "status"], registry=registry
        )
        self.seconds = Histogram(
            "diverset_seconds", "Time to answer", ["path"], buckets=BUCKETS, registry=registry
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, began = 0, time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                # The page is several files: an old one must not meet new ones after an upgrade.
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        try:
            await self.app(scope, receive, noted)
        except Exception:
            log.exception("broken: no answer for %r", scope["path"])
            if not status:
                await said(500, "the server broke; its log says why")(scope, receive, noted)
            status = 500
        finally:
            # Patterns of routes, not paths: a stranger cannot make up ever new labels.
            path = getattr(scope.get("route"), "path", "other")
            self.seconds.labels(path).observe(time.perf_counter() - began)
            self.answers.labels(path, status).inc()
