import io
import sys

import pytest

from diverset.runtime import progress as module
from diverset.runtime.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    times = iter(range(0, 10_000, 20))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(times)))


def test_plain_output_has_a_line_every_half_minute(capsys, clock):
    with Progress() as progress:
        for done in range(1, 5):  # 20 s apart
            progress.update("features", done, 100, "2 skipped")
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["features: 3 of 100, 0.1/s, 32 min left, 2 skipped"]


def test_message_is_printed_as_it_is_with_or_without_colon(capsys):
    with Progress() as progress:
        progress.message("epoch 1: val RSUM 500.0")
        progress.message("done [a-z]")
        progress.status("loading the model")  # for terminals only
    assert capsys.readouterr().err == "epoch 1: val RSUM 500.0\ndone [a-z]\n"


def test_disabled_progress_prints_nothing(capsys, clock):
    with Progress(enabled=False) as progress:
        for done in range(10):
            progress.update("features", done, 10)
    assert capsys.readouterr().err == ""


def test_terminal_shows_the_task_and_keeps_messages(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress() as progress:
        progress.status("loading the model")
        progress.task("epoch 1")(3, 10)
        progress.message("epoch 1: val RSUM [1, 2]")
        progress.clear()
    assert "epoch 1: val RSUM [1, 2]" in terminal.getvalue()
    assert "3 of 10" in terminal.getvalue()
