"""Small files in memory, bounded by their bytes; what was not asked for longest goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable


class Cache:
    """Keeps what was made.

    >>> cache = Cache(10)
    >>> [cache.get(key, lambda: bytes(6)) == bytes(6) for key in "aba"], len(cache)
    ([True, True, True], 1)
    """

    def __init__(self, most: int) -> None:
        self.most, self.taken = most, 0
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """What is kept under a key, or made now; two who ask at once may both make it."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            self.taken += len(made) - len(self._kept.pop(key, b""))
            self._kept[key] = made
            while self.taken > self.most:
                self.taken -= len(self._kept.popitem(last=False)[1])
        return made

    def __len__(self) -> int:
        return len(self._kept)
