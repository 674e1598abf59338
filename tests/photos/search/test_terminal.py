"""Which terminals show images, with a pseudo-terminal that answers as they do."""

import os
import pty
import struct
import subprocess
import sys
import threading

import pytest

from diverset.photos.search.terminal import QUESTION, ask_protocol, protocol_of, terminal_width

fcntl = pytest.importorskip("fcntl")
termios = pytest.importorskip("termios")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-ghostty"}, "kitty"),
        ({"TERM_PROGRAM": "iTerm.app"}, "iterm2"),
        ({"TERM_PROGRAM": "WezTerm", "TERM": "xterm-256color"}, "iterm2"),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "iterm2"),
        ({"TERM": "foot-extra"}, "sixel"),
        ({"TERM": "xterm-256color"}, None),
        ({"TERM_PROGRAM": "Apple_Terminal"}, None),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "screen", "TERM_PROGRAM": "iTerm.app"}, None),
        ({}, None),
    ],
)
def test_terminals_are_known_by_their_names(environment, expected):
    assert protocol_of(environment) == expected


@pytest.fixture
def terminal():
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"\x1b_Gi=31;OK\x1b\\\x1b[?62;c", "kitty"),
        (b"\x1b[?62;4;6;22c", "sixel"),
        (b"\x1b[?64;1;2;6;9;15;18;21;22c", None),
        (b"\x1b_Gi=31;ENOTSUPPORTED\x1b\\\x1b[?62;4c", "sixel"),
        (b"", None),
    ],
)
def test_a_terminal_is_asked(terminal, answer, expected, monkeypatch):
    monkeypatch.setattr("diverset.photos.search.terminal.TIMEOUT", 5.0 if answer else 0.1)
    master, slave = terminal
    before = termios.tcgetattr(slave)
    asked = b""

    def reply():
        nonlocal asked
        while len(asked) < len(QUESTION):
            asked += os.read(master, 100)
        for part in (answer[:9], answer[9:]):  # answers may come in parts
            os.write(master, part)

    thread = threading.Thread(target=reply)
    thread.start()
    assert ask_protocol(slave, slave) == expected
    thread.join()
    assert asked == QUESTION
    assert termios.tcgetattr(slave) == before  # the terminal is as it was


def test_the_width_is_read_from_the_terminal(terminal):
    master, slave = terminal
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 900, 480))
    assert terminal_width(slave) == (100, 900)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    assert terminal_width(slave) == (100, 800)


def read_all(master) -> bytes:
    content = b""
    try:
        while part := os.read(master, 1 << 16):
            content += part
    except OSError:  # the other end is closed
        pass
    return content


@pytest.mark.parametrize(
    ("term", "options", "shown"),
    [
        ("xterm-kitty", [], b"\x1b_Ga=T"),
        ("xterm-256color", [], b""),
        ("xterm-kitty", ["--no-show"], b""),
    ],
)
def test_search_shows_images_in_terminals_that_can(made_library, term, options, shown):
    """The whole command line in a pseudo-terminal."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": term}
    for name in ("TMUX", "KITTY_WINDOW_ID", "TERM_PROGRAM", "LC_TERMINAL"):
        environment.pop(name, None)
    arguments = ["search", "a dog", "--library", str(made_library), *options]
    process = subprocess.Popen(
        [sys.executable, "-m", "diverset", *arguments],
        stdin=slave, stdout=slave, stderr=subprocess.DEVNULL, env=environment,
    )  # fmt: skip
    os.close(slave)
    content = read_all(master)
    os.close(master)
    assert process.wait() == 0
    assert content.count(b".png") >= 3
    assert (b"\x1b_G" in content) == bool(shown) and shown in content


def test_show_is_an_error_where_nothing_can_be_shown(made_library, capsys):
    from diverset.cli import main

    assert main(["search", "a dog", "--library", str(made_library), "--show"]) == 2
    assert "--show needs a terminal that shows images" in capsys.readouterr().err


@pytest.fixture(scope="module")
def made_library(tmp_path_factory):
    from photos.library_support import make_images, make_model

    from diverset.cli import main

    base = tmp_path_factory.mktemp("terminal")
    photos, model = make_images(base / "photos", 3), make_model(base / "model")
    library = base / "library"
    assert main(["index", str(photos), "--library", str(library), "--model", model]) == 0
    return library
