"""Showing images in the terminal: whether it can, from its environment or by asking it.

Only Unix terminals are asked and measured; on other systems nothing is shown.
"""

from __future__ import annotations

import os
import re
import select
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from diverset.photos.search.terminal_images import ITERM2, KITTY, SIXEL

TIMEOUT = 0.5  # seconds to wait for the answer of a terminal
CELL_WIDTH, DEFAULT_COLUMNS = 8, 80  # pixels and cells, if the terminal does not say
MAX_WIDTH = 1200  # pixels of a contact sheet
# A query image that is not shown, then the question which every terminal answers.
QUESTION = b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[c"
ATTRIBUTES = re.compile(rb"\x1b\[\?([\d;]+)c")
SIXEL_ATTRIBUTE = b"4"
PROGRAMS = {
    "iTerm.app": ITERM2, "WezTerm": ITERM2, "mintty": ITERM2, "ghostty": KITTY,
}  # fmt: skip


def protocol_of(environment: Mapping[str, str]) -> str | None:
    """The protocol of a terminal that names itself in the environment.

    In tmux and screen these variables are those of the terminal outside, which would not get the
    image.

    >>> protocol_of({"TERM": "xterm-kitty"}), protocol_of({"TERM": "xterm-256color"})
    ('kitty', None)
    """
    term = environment.get("TERM", "")
    if "TMUX" in environment or term.startswith(("screen", "tmux")):
        return None
    if "KITTY_WINDOW_ID" in environment or term in ("xterm-kitty", "xterm-ghostty"):
        return KITTY
    if environment.get("LC_TERMINAL") == "iTerm2":
        return ITERM2
    if term.startswith(("foot", "mlterm", "yaft")):
        return SIXEL
    return PROGRAMS.get(environment.get("TERM_PROGRAM", ""))


def ask_protocol(input: int, output: int) -> str | None:
    """The protocol that the terminal behind these file descriptors says it supports."""
    with _unbuffered(input):
        os.write(output, QUESTION)
        answer, end = b"", time.monotonic() + TIMEOUT
        while not ATTRIBUTES.search(answer):
            ready, _, _ = select.select([input], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                break
            answer += os.read(input, 1024)
    if b"\x1b_Gi=31;OK" in answer:
        return KITTY
    attributes = ATTRIBUTES.search(answer)
    return SIXEL if attributes and SIXEL_ATTRIBUTE in attributes[1].split(b";") else None


def terminal_protocol(ask: bool) -> str | None:
    """The protocol of the terminal that shows the output; None if it is not a terminal."""
    if os.name != "posix" or not sys.stdout.isatty():
        return None
    known = protocol_of(os.environ)
    if known or not ask or not sys.stdin.isatty():
        return known
    return ask_protocol(sys.stdin.fileno(), sys.stdout.fileno())


def show_contact_sheet(paths: Sequence[str], protocol: str) -> None:
    """Write a contact sheet of images to the terminal, numbered in this order."""
    from diverset.photos.search.contact_sheet import contact_sheet
    from diverset.photos.search.terminal_images import encode

    columns, pixels = terminal_width(sys.stdout.fileno())
    names = [os.path.basename(path) for path in paths]
    sheet = contact_sheet(paths, names, min(pixels, MAX_WIDTH))
    cells = min(columns, -(-sheet.width * columns // pixels))  # not enlarged
    sys.stdout.flush()
    sys.stdout.buffer.write(encode(sheet, protocol, cells))
    sys.stdout.flush()


def terminal_width(output: int) -> tuple[int, int]:
    """Width of a terminal in cells and in pixels."""
    import fcntl
    import struct
    import termios

    size = fcntl.ioctl(output, termios.TIOCGWINSZ, bytes(8))
    _, columns, pixels, _ = struct.unpack("HHHH", size)
    columns = columns or DEFAULT_COLUMNS
    return columns, pixels or CELL_WIDTH * columns


@contextmanager
def _unbuffered(descriptor: int) -> Iterator[None]:
    """A terminal whose answer is neither shown nor held back until Enter is pressed."""
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
