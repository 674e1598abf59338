"""Images written for terminals, decoded as a terminal would."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from diverset.photos.search.terminal_images import CHUNK, encode


@pytest.fixture
def image():
    """Smooth colours with an edge; the height is not a multiple of six."""
    rng = np.random.default_rng(0)
    coarse = Image.fromarray(rng.integers(0, 255, (4, 5, 3), dtype=np.uint8))
    smooth = coarse.resize((157, 83))
    smooth.paste("black", (100, 10, 140, 60))
    return smooth


def test_kitty_chunks_join_to_the_image(image):
    data = encode(image, "kitty", columns=40)
    commands = re.findall(rb"\x1b_G([^;]*);([A-Za-z0-9+/=]*)\x1b\\", data)
    keys = [dict(pair.split(b"=") for pair in command.split(b",")) for command, _ in commands]
    assert keys[0] == {b"a": b"T", b"f": b"100", b"q": b"2", b"c": b"40", b"m": keys[0][b"m"]}
    assert [key[b"m"] for key in keys] == [b"1"] * (len(keys) - 1) + [b"0"]
    assert len(keys) > 1 and all(len(chunk) <= CHUNK for _, chunk in commands)
    assert all(len(chunk) % 4 == 0 for _, chunk in commands)
    png = base64.b64decode(b"".join(chunk for _, chunk in commands))
    with Image.open(io.BytesIO(png)) as shown:
        assert shown.format == "PNG" and shown.tobytes() == image.tobytes()


def test_iterm2_gets_the_image_with_its_size(image):
    data = encode(image, "iterm2", columns=40)
    keys, content = re.fullmatch(rb"\x1b\]1337;File=([^:]*):(.*)\x07\n", data).groups()
    png = base64.b64decode(content)
    fields = dict(pair.split(b"=") for pair in keys.split(b";"))
    assert fields[b"inline"] == b"1" and fields[b"width"] == b"40"
    assert int(fields[b"size"]) == len(png)
    with Image.open(io.BytesIO(png)) as shown:
        assert shown.tobytes() == image.tobytes()


def decode_sixel(data: bytes) -> np.ndarray:
    """A sixel decoder: palette, repeats, `$` back to the start of the band, `-` to the next."""
    header = re.match(rb"\x1bP0;1;0q\"1;1;(\d+);(\d+)", data)
    width, height = map(int, header.groups())
    pixels = np.full((height + 5, width, 3), -1)
    body = data[header.end() : data.index(b"\x1b\\")]
    token = re.compile(rb"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)([?-~])|([?-~])|([$-])")
    palette, colour, x, y, position = {}, None, 0, 0, 0
    while position < len(body):
        match = token.match(body, position)
        position = match.end()
        defined, red, green, blue, chosen, count, repeated, single, control = match.groups()
        if defined:
            palette[int(defined)] = [round(int(v) * 255 / 100) for v in (red, green, blue)]
        elif chosen:
            colour = palette[int(chosen)]
        elif control:
            x, y = 0, y + 6 * (control == b"-")
        else:
            bits = (repeated or single)[0] - 63
            for _ in range(int(count or 1)):
                for row in range(6):
                    if bits >> row & 1:
                        assert (pixels[y + row, x] == -1).all()  # drawn once
                        pixels[y + row, x] = colour
                x += 1
    assert (pixels[height:] == -1).all()  # nothing below the image
    return pixels[:height]


def test_sixels_draw_every_pixel_once_in_nearly_its_colour(image):
    shown = decode_sixel(encode(image, "sixel", columns=40))
    assert (shown >= 0).all()
    difference = np.abs(shown - np.asarray(image).astype(int))
    assert difference.mean() < 6 and np.percentile(difference, 99) < 40


def test_sixels_of_one_colour_are_repeats():
    data = encode(Image.new("RGB", (300, 12), "red"), "sixel", columns=40)
    assert data.count(b"!300~") == 2 and len(data) < 80
    assert (decode_sixel(data) == [255, 0, 0]).all()
