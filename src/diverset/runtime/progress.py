"""Progress of long jobs on stderr: a bar on a terminal, otherwise a line every half minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Self

ProgressCallback = Callable[[str, int, int], None]
"""Called with the name of a task, the items done and all items, as `Progress.update`."""
TaskCallback = Callable[[int, int], None]
"""The same for a single task, without its name."""
PLAIN_SECONDS = 30.0  # between two lines where stderr is not a terminal


class Progress:
    """A context manager; inside it, `update` moves the bar and `message` prints above it.

    Args:
        enabled: False shows nothing, e.g. in all but one process of a distributed run.
    """

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self._task: str | None = None
        self._first = (0, 0.0)  # items done and time at the first update of the task
        self._last_line = 0.0
        self._bar: Any = None
        self._bar_task: Any = None

    def __enter__(self) -> Self:
        if self.enabled and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as RichProgress

            columns = ("{task.description}", BarColumn(), TextColumn("{task.fields[summary]}"))
            self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def clear(self) -> None:
        """Remove the bar of the current task, e.g. before printing its result."""
        self._task = None
        if self._bar_task is not None:
            self._bar.remove_task(self._bar_task)
            self._bar_task = None
            self._bar.refresh()

    def update(self, task: str, done: int, total: int, note: str = "") -> None:
        """Show how many items of a task are done; a new task starts a new bar.

        `note`, e.g. "3 skipped", is appended to the counts.
        """
        now = time.monotonic()
        is_new = task != self._task
        if is_new:
            self._start(task, total)
            self._first, self._last_line = (done, now), now
        elapsed = now - self._first[1]
        rate = (done - self._first[0]) / elapsed if elapsed else 0.0
        summary = summarize(done, total, rate, note)
        if self._bar is not None:
            self._bar.update(
                self._bar_task, completed=done, total=total, summary=summary, refresh=is_new
            )
        elif now - self._last_line >= PLAIN_SECONDS:
            self._last_line = now
            self.message(f"{task}: {summary}")

    def task(self, name: str) -> TaskCallback:
        """`update` for one task, for functions that report only (done, total)."""
        return partial(self.update, name)

    def status(self, text: str) -> None:
        """Say what happens before anything can be counted; on terminals only."""
        self._start(text, None)

    def message(self, text: str) -> None:
        """Print a line that stays on the screen."""
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False, soft_wrap=True)
        elif self.enabled:
            print(text, file=sys.stderr, flush=True)

    def _start(self, task: str, total: int | None) -> None:
        self.clear()
        self._task = task
        if self._bar is not None:
            self._bar_task = self._bar.add_task(task, total=total, summary="")


def summarize(done: int, total: int, rate: float, note: str = "") -> str:
    """Counts, rate and remaining time in one line.

    >>> summarize(50, 200, 10.0, "1 skipped")
    '50 of 200, 10.0/s, 15 s left, 1 skipped'
    """
    parts = [f"{done:,} of {total:,}"]
    if rate:
        parts.append(f"{rate:.1f}/s")
        if done < total:
            parts.append(f"{format_duration((total - done) / rate)} left")
    return ", ".join([*parts, note] if note else parts)


def format_duration(seconds: float) -> str:
    """Seconds, minutes or hours, for people.

    >>> format_duration(42), format_duration(250), format_duration(9000)
    ('42 s', '4 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
