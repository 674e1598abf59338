"""Progress on the terminal: one bar for whatever is going on, a line for what is finished."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

from diverset.errors import import_extra


class Bars:
    """Shows (what, done, total); where no terminal is, only finished things are printed."""

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self._what = ""
        self._task: Any = None
        self._progress: Any = None

    def __enter__(self) -> Self:
        if self.enabled and sys.stderr.isatty():
            rich: Any = import_extra("rich.progress", "train")
            console: Any = import_extra("rich.console", "train")
            columns = (
                *rich.Progress.get_default_columns(),
                rich.MofNCompleteColumn(),
                rich.TimeElapsedColumn(),
            )
            self._progress = rich.Progress(*columns, console=console.Console(stderr=True))
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, what: str, done: int, total: int) -> None:
        """Tell how far something is; a text with a colon is news and stays on the screen."""
        if not self.enabled:
            return
        if ":" in what:
            self._say(what)
            return
        if self._progress is None:
            if done >= total and not what.startswith("epoch"):
                self._say(f"{what}: {total}")
            return
        if what != self._what:
            if self._task is not None:
                self._progress.remove_task(self._task)
            self._task, self._what = self._progress.add_task(what, total=total), what
        self._progress.update(self._task, completed=done, total=total)

    def _say(self, line: str) -> None:
        if self._progress is not None:
            self._progress.console.print(line, highlight=False)
        else:
            print(line, file=sys.stderr, flush=True)
