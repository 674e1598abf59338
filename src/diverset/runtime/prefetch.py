"""Prepare the next items in threads while the caller works on the current one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def prefetch(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    workers: int = 1,
    depth: int | None = None,
    initializer: Callable[[], Any] | None = None,
) -> Generator[Result, None, None]:
    """Yield `work(item)` for every item, in order, computed in threads.

    Closing the generator cancels what has not started. A single item is computed in the calling
    thread.

    Args:
        work: called in a worker thread.
        items: consumed as results are taken.
        workers: number of threads.
        depth: results to prepare before they are needed; by default one per worker.
        initializer: called once in each thread.

    >>> list(prefetch(abs, [-1, -2, -3]))
    [1, 2, 3]
    """
    remaining = iter(items)
    first = list(islice(remaining, 2))
    if len(first) < 2:  # nothing to overlap
        yield from map(work, first)
        return
    depth = workers if depth is None else depth
    pending: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(workers, "prefetch", initializer)
    try:
        for item in chain(first, remaining):
            pending.append(pool.submit(work, item))
            if len(pending) > depth:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
