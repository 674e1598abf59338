"""Which requests compute at a time.

Without a bound on searches they would take all memory, and without a bound on those that wait,
everybody would wait for longer than anybody wants to. Requests beyond it are told to come back.
Details of images wait for the index or the network in a thread each: there are fewer of them than
threads, so that /status and thumbnails never wait for one.
"""

from __future__ import annotations

import asyncio
import logging

from starlette.types import ASGIApp, Receive, Scope, Send

from diverset.photos.serve.error_responses import busy_response
from diverset.photos.serve.limits import Limits

log = logging.getLogger("diverset.photos.serve")
SEARCHES = ("/search", "/similar")
DETAILS = ("/explain", "/items/info", "/items/overlay", "/items/elements")
IMAGES = ("/items/image", "/items/original")


class Admission:
    """Lets a few requests of a kind compute; a limited number of others wait, in order."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits
        groups = {SEARCHES: limits.searches, DETAILS: limits.details, IMAGES: limits.images}
        self.turns = {
            path: turns
            for paths, count in groups.items()
            for turns in [_Turns(count)]
            for path in paths
        }

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
