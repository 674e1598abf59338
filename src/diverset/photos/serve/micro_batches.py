"""Searches of several requests, encoded and ranked together.

While a batch is computed in a thread, further searches wait and form the next batch. If several
came last time, a batch waits a few milliseconds for more; a client alone never waits. How many
wait is bounded by `Limits.searches`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from diverset.errors import DiversetError
from diverset.photos.search.result import SearchResult
from diverset.photos.search.search_together import Search

MAX_BATCH = 32  # searches; larger batches save little and delay their first search
WINDOW = 0.003  # seconds that a batch waits for further searches
_Job = tuple[Search, "asyncio.Future[SearchResult]"]


class MicroBatches:
    """Answers the searches of one event loop in batches.

    `compute` returns the result of each search, or its error.
    """

    def __init__(
        self, compute: Callable[[Sequence[Search]], Sequence[SearchResult | DiversetError]]
    ) -> None:
        self._compute = compute
        self._waiting: list[_Job] = []
        self._task: asyncio.Task[None] | None = None  # while there are searches

    async def search(self, search: Search) -> SearchResult:
        """The result of a search; one that is cancelled before its batch is not computed."""
        future: asyncio.Future[SearchResult] = asyncio.get_running_loop().create_future()
        self._waiting.append((search, future))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        crowded = False
        try:
            while self._waiting:
                if crowded and len(self._waiting) < MAX_BATCH:
                    await asyncio.sleep(WINDOW)
                batch, self._waiting = self._waiting[:MAX_BATCH], self._waiting[MAX_BATCH:]
                crowded = len(batch) > 1
                await self._answer([job for job in batch if not job[1].done()])
        finally:
            self._task = None

    async def _answer(self, batch: Sequence[_Job]) -> None:
        if not batch:
            return
        results: Sequence[SearchResult | Exception]
        try:
            results = await asyncio.to_thread(self._compute, [search for search, _ in batch])
        except Exception as error:  # unexpected; the server answers each of them with 500
            results = [error] * len(batch)
        for (_, future), result in zip(batch, results, strict=True):
            if future.done():  # cancelled meanwhile
                continue
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
