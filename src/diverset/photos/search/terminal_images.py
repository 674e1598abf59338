"""Images in terminals, by the protocols of kitty, iTerm2 and sixel.

kitty     https://sw.kovidgoyal.net/kitty/graphics-protocol/
iTerm2    https://iterm2.com/documentation-images.html
sixel     https://vt100.net/docs/vt3xx-gp/chapter14.html
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator

import numpy as np
from jaxtyping import UInt8
from PIL import Image

KITTY, ITERM2, SIXEL = "kitty", "iterm2", "sixel"
CHUNK = 4096  # bytes of base64 in one escape sequence of kitty
COLOURS = 128  # of a sixel image; terminals have 256 registers
PALETTE_STEP = 4  # pixels in both directions, of which one counts for the palette
BAND = 6  # rows of pixels in one row of sixels
EMPTY = ord("?")  # a sixel without pixels
REPEAT = re.compile(rb"(.)\1{3,}")  # equal sixels that are shorter as a count


def encode(image: Image.Image, protocol: str, columns: int) -> bytes:
    """The escape sequences that show an image at the cursor, at most `columns` cells wide."""
    if protocol == KITTY:
        return b"".join(_kitty(_png(image), columns)) + b"\n"
    if protocol == ITERM2:
        return _iterm2(_png(image), columns) + b"\n"
    return _sixel(image) + b"\n"


def _png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def _kitty(png: bytes, columns: int) -> Iterator[bytes]:
    """Chunks; q=2: the terminal must not answer, since nothing reads the answer."""
    data = base64.b64encode(png)
    chunks = [data[start : start + CHUNK] for start in range(0, len(data), CHUNK)]
    for number, chunk in enumerate(chunks):
        more = int(number + 1 < len(chunks))
        keys = f"a=T,f=100,q=2,c={columns},m={more}" if number == 0 else f"m={more}"
        yield b"\x1b_G" + keys.encode() + b";" + chunk + b"\x1b\\"


def _iterm2(png: bytes, columns: int) -> bytes:
    keys = f"inline=1;size={len(png)};width={columns};preserveAspectRatio=1"
    return b"\x1b]1337;File=" + keys.encode() + b":" + base64.b64encode(png) + b"\x07"


def _sixel(image: Image.Image) -> bytes:
    """A palette, then bands of six rows; in a band one line of sixels per colour."""
    rgb = image.convert("RGB")
    sample = rgb.reduce(PALETTE_STEP).quantize(COLOURS)  # a tenth of the time of all pixels
    indexed = rgb.quantize(palette=sample, dither=Image.Dither.NONE)
    palette = np.array(indexed.getpalette()).reshape(-1, 3)
    pixels = np.asarray(indexed)
    out = [f'\x1bP0;1;0q"1;1;{image.width};{image.height}'.encode()]
    for colour in np.unique(pixels).tolist():
        red, green, blue = (round(value * 100 / 255) for value in palette[colour].tolist())
        out.append(f"#{colour};2;{red};{green};{blue}".encode())
    for top in range(0, image.height, BAND):
        out.append(b"$".join(_band(pixels[top : top + BAND])) + b"-")
    out.append(b"\x1b\\")
    return b"".join(out)


def _band(rows: UInt8[np.ndarray, "rows columns"]) -> Iterator[bytes]:
    """For each colour the sixels of the columns, whose lowest bit is the top row."""
    colours, positions = np.unique(rows, return_inverse=True)
    sixels = np.full((len(colours), rows.shape[1]), EMPTY, dtype=np.uint8)
    for bit, position in enumerate(positions.reshape(rows.shape)):
        sixels[position, np.arange(rows.shape[1])] += 1 << bit
    for colour, line in zip(colours.tolist(), sixels, strict=True):
        repeats = REPEAT.sub(_count, line.tobytes().rstrip(bytes([EMPTY])))
        yield f"#{colour}".encode() + repeats


def _count(run: re.Match[bytes]) -> bytes:
    return f"!{len(run[0])}".encode() + run[1]
