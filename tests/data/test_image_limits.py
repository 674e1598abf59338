"""Images that would take gigabytes are rejected before they are decoded."""

import io
import struct
import subprocess
import sys
import zlib

import pytest
from PIL import Image

from diverset.data.image_limits import MAX_MEMORY, MAX_SIDE
from diverset.data.images import open_image
from diverset.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
PEAK = """
import resource, sys
from diverset.data.preprocess import Preprocess
from diverset.errors import DataError
preprocess, data = Preprocess(64, crop="squash"), sys.stdin.buffer.read()
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    preprocess.pixels(preprocess.open("a", data))
except DataError as error:
    print(error, file=sys.stderr)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) // 1024)
"""


def grey_png(width: int, height: int) -> bytes:
    """A valid PNG of one grey level; 1 x 49,900,000 pixels take 97 KB."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compressobj()
    pixels = b"".join(rows.compress(bytes(10_000 * (width + 1))) for _ in range(height // 10_000))
    body = chunk(b"IHDR", header) + chunk(b"IDAT", pixels + rows.flush()) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def peak_megabytes(data: bytes) -> int:
    command = [sys.executable, "-c", PEAK]
    return int(subprocess.run(command, input=data, capture_output=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in other units elsewhere")
def test_a_small_file_with_one_very_long_side_takes_little_memory():
    data = grey_png(1, 49_900_000)
    assert len(data) < 100_000
    assert peak_megabytes(data) < 100


def test_a_long_side_is_rejected():
    with pytest.raises(DataError, match=r"1 x 70000 pixels; a side may have at most 65,535"):
        open_image("long.png", data=grey_png(1, 70_000))
    assert open_image("wide.png", data=png((MAX_SIDE, 1))).size == (MAX_SIDE, 1)


def png(size: tuple[int, int], mode: str = "L", **options: object) -> bytes:
    return saved(Image.new(mode, size), "PNG", **options)


def saved(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def header_only(mode: str, kind: str, size: tuple[int, int], **options: object) -> Image.Image:
    """An opened image that claims another size; only its header was read."""
    image = Image.open(io.BytesIO(saved(Image.new(mode, (64, 64)), kind, **options)))
    image._size = size
    return image


@pytest.mark.parametrize(
    ("mode", "kind", "options", "min_size", "fits"),
    [
        ("RGB", "PNG", {}, 500, True),
        ("RGB", "PNG", {}, None, False),  # a second copy of all pixels
        ("RGB", "JPEG", {}, 500, True),
        ("RGB", "JPEG", {"progressive": True}, 500, False),  # all coefficients at once
        ("RGB", "WEBP", {}, 500, False),
        ("L", "PNG", {}, None, True),
    ],
)
def test_the_memory_limit_depends_on_the_format(mode, kind, options, min_size, fits):
    from diverset.data.image_limits import check_limits

    with header_only(mode, kind, (9400, 9400), **options) as image:
        if fits:
            check_limits(image, 0, min_size)
            with pytest.raises(DataError, match="MiB of memory"):
                check_limits(image, MAX_MEMORY, min_size)
        else:
            with pytest.raises(DataError, match="MiB of memory"):
                check_limits(image, 0, min_size)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "L"])
def test_very_large_images_are_converted_in_strips_like_small_ones(monkeypatch, mode):
    corner = Image.linear_gradient("L").resize((300, 210)).convert("RGBA")
    corner.putalpha(Image.linear_gradient("L").rotate(90).resize((300, 210)))
    data = saved(corner.convert(mode), "PNG")
    expected = open_image("a.png", data=data)
    monkeypatch.setattr("diverset.data.images.LARGE", 1000)
    monkeypatch.setattr("diverset.data.images.STRIP", 2000)
    assert open_image("a.png", data=data).tobytes() == expected.tobytes()
    small = open_image("a.png", 70, data)
    assert small.tobytes() == expected.reduce(3).tobytes()
