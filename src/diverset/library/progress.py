"""How far a long job is: a rate, the time left, what was skipped."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

EVERY = {True: 0.2, False: 10.0}  # seconds between two lines, on a terminal and elsewhere


@dataclass(frozen=True)
class Progress:
    """One moment of a job."""

    done: int
    total: int
    skipped: int = 0
    rate: float = 0.0
    what: str = "pictures"

    @property
    def left(self) -> float:
        """Seconds, if it goes on like this."""
        return (self.total - self.done) / self.rate if self.rate else float("inf")

    def __str__(self) -> str:
        """
        >>> str(Progress(50, 200, 1, 10.0))
        '50 of 200 pictures, 10.0/s, 15 s left, 1 skipped'
        """
        said = f"{self.done:,} of {self.total:,} {self.what}, {self.rate:.1f}/s"
        if 0 < self.left < float("inf"):
            said += f", {_duration(self.left)} left"
        return said + (f", {self.skipped:,} skipped" if self.skipped else "")


Report = Callable[[Progress], None]


@dataclass
class Line:
    """Progress as a line that is written over on a terminal, and now and then elsewhere."""

    _last: float = field(default_factory=time.monotonic)
    _open: bool = False

    def __call__(self, progress: Progress) -> None:
        terminal, now = sys.stderr.isatty(), time.monotonic()
        if now - self._last < EVERY[terminal]:
            return
        self._last, self._open = now, terminal
        end = "" if terminal else "\n"
        print(
            ("\r\033[K" if terminal else "") + str(progress), end=end, file=sys.stderr, flush=True
        )

    def say(self, text: str) -> None:
        """What goes on before there is anything to count; only people at a terminal want it."""
        if sys.stderr.isatty():
            self._open = True
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._open:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    """
    >>> _duration(42), _duration(250), _duration(9000)
    ('42 s', '4 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
