"""Which requests compute at a time.

Searches wait for one model, each in a thread. Without a bound they would take all threads, and
/status would wait behind them; without a bound on those that wait, everybody would wait for longer
than anybody wants to. Requests beyond it are told to come back.
"""

from __future__ import annotations

import asyncio
import logging

from starlette.types import ASGIApp, Receive, Scope, Send

from diverset.photos.serve.error_responses import busy_response
from diverset.photos.serve.limits import Limits

log = logging.getLogger("diverset.photos.serve")
SEARCHES = ("/search", "/similar", "/explain", "/items/overlay", "/items/elements")
IMAGES = ("/items/image", "/items/original")


class Admission:
    """Lets a few requests of a kind compute; a limited number of others wait, in order."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        searches, images = _Turns(limits.searches), _Turns(limits.images)
        self.turns = {path: searches for path in SEARCHES} | {path: images for path in IMAGES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        turns = self.turns.get(scope["path"]) if scope["type"] == "http" else None
        if turns is None:
            await self.app(scope, receive, send)
            return
        if turns.waiting >= self.limits.waiting:
            log.warning("busy: %d requests wait", turns.waiting)
            await busy_response()(scope, receive, send)
            return
        turns.waiting += 1
        try:
            await turns.free.acquire()
        finally:
            turns.waiting -= 1
        try:
            await self.app(scope, receive, send)
        finally:
            turns.free.release()


class _Turns:
    def __init__(self, count: int) -> None:
        self.free, self.waiting = asyncio.Semaphore(count), 0
