import io
import struct
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diverset.data import open_image
from diverset.data.images import FORMATS
from diverset.errors import DataError


def save(image: Image.Image, path: Path, **options) -> Path:
    image.save(path, **options)
    return path


def colour(image: Image.Image, x: int = 0, y: int = 0) -> tuple[int, ...]:
    return image.getpixel((x, y))


def test_orientation_tag_is_followed(tmp_path: Path):
    image = Image.new("RGB", (20, 10), "red")
    image.paste("blue", (0, 0, 10, 10))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise: the left half comes to the top
    path = save(image, tmp_path / "turned.png", exif=exif)
    found = open_image(path)
    assert found.size == (10, 20)
    assert colour(found) == (0, 0, 255) and colour(found, 0, 19) == (255, 0, 0)


def test_damaged_orientation_tag_is_ignored(tmp_path: Path):
    broken = b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\xff\x01"
    path = save(Image.new("RGB", (4, 4), "red"), tmp_path / "a.png", exif=broken)
    assert open_image(path).size == (4, 4)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_is_composed_on_white(tmp_path: Path, mode: str):
    clear = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    path = save(clear.convert(mode), tmp_path / "clear.png")
    assert colour(open_image(path)) == (255, 255, 255)


def test_palette_with_a_transparent_entry(tmp_path: Path):
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 10, 20, 30])
    path = save(image, tmp_path / "p.png", transparency=0)
    assert colour(open_image(path)) == (10, 20, 30)


@pytest.mark.parametrize("mode", ["1", "L", "CMYK", "YCbCr"])
def test_other_modes_become_rgb(tmp_path: Path, mode: str):
    path = save(Image.new("RGB", (8, 8), "white").convert(mode), tmp_path / "m.tif")
    found = open_image(path)
    assert found.mode == "RGB" and min(colour(found)) >= 254


def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path: Path):
    levels = np.full((4, 4), 32768, dtype=np.uint16)
    path = save(Image.fromarray(levels), tmp_path / "deep.png")
    assert colour(open_image(path)) == (128, 128, 128)


@pytest.mark.parametrize(("level", "grey"), [(0.5, 128), (100.0, 100)])
def test_floating_point_images_become_grey_levels(tmp_path: Path, level: float, grey: int):
    path = save(Image.fromarray(np.full((4, 4), level, np.float32)), tmp_path / "f.tif")
    assert colour(open_image(path)) == (grey, grey, grey)


@pytest.mark.parametrize(("mode", "white"), [("I;16", 65535), ("I", 65535), ("F", 1.0)])
def test_large_high_depth_images_are_shrunk_on_request(tmp_path: Path, mode: str, white: float):
    image = Image.new(mode, (805, 400), 0)
    image.paste(white, (400, 0, 805, 400))
    path = save(image, tmp_path / "deep.tif")
    assert open_image(path).size == (805, 400)
    found = open_image(path, min_size=100)
    assert found.size == (201, 100)
    assert colour(found, 90, 50) == (0, 0, 0) and colour(found, 110, 50) == (255, 255, 255)


def test_shrinking_high_depth_images_takes_little_memory(tmp_path: Path):
    path = save(Image.new("I;16", (2000, 2000)), tmp_path / "deep.png")
    tracemalloc.start()
    open_image(path, min_size=200)
    assert tracemalloc.get_traced_memory()[1] < 5e6  # in float64 the levels alone are 32 MB
    tracemalloc.stop()


def test_large_jpegs_are_decoded_smaller_on_request(tmp_path: Path):
    path = save(Image.new("RGB", (800, 400), "green"), tmp_path / "large.jpg")
    assert open_image(path).size == (800, 400)
    assert open_image(path, min_size=100).size == (200, 100)
    assert open_image(path, min_size=300).size == (800, 400)


def test_truncated_file_is_named(tmp_path: Path):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    path = save(Image.fromarray(noise), tmp_path / "cut.jpg")
    path.write_bytes(path.read_bytes()[:800])
    with pytest.raises(DataError, match=r"cut\.jpg.*damaged or truncated"):
        open_image(path)


@pytest.mark.parametrize("content", [b"", b"not an image at all", b"\x89PNG\r\n\x1a\n"])
def test_file_that_is_not_an_image_is_named(tmp_path: Path, content: bytes):
    path = tmp_path / "text.jpg"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"text\.jpg"):
        open_image(path)


def test_missing_file_is_named(tmp_path: Path):
    with pytest.raises(DataError, match="there is no image .*gone.jpg"):
        open_image(tmp_path / "gone.jpg")


def png_of(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"0"))


@pytest.mark.parametrize("side", [10_000, 60_000])
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_decompression_bombs_are_rejected_before_decoding(tmp_path: Path, side: int):
    path = tmp_path / "bomb.png"
    path.write_bytes(png_of(side, side))
    with pytest.raises(DataError, match=r"bomb\.png is too large to be decoded safely"):
        open_image(path)


def test_decompression_bombs_are_rejected_if_warnings_are_errors(tmp_path: Path):
    path = tmp_path / "bomb.png"
    path.write_bytes(png_of(10_000, 10_000))
    with pytest.raises(DataError, match="too large"):
        open_image(path)


def test_first_frame_of_an_animation_is_read(tmp_path: Path):
    frames = [Image.new("RGB", (4, 4), name) for name in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert colour(open_image(tmp_path / "a.gif")) == (255, 0, 0)


def test_path_may_be_a_string(tmp_path: Path):
    buffer = io.BytesIO()
    Image.new("RGB", (4, 4)).save(buffer, "PNG")
    (tmp_path / "a.png").write_bytes(buffer.getvalue())
    assert open_image(str(tmp_path / "a.png")).size == (4, 4)


@pytest.mark.parametrize("kind", FORMATS)
def test_every_supported_format_is_read(tmp_path: Path, kind: str):
    path = save(Image.new("RGB", (8, 8), "white"), tmp_path / "a", format=kind)
    assert colour(open_image(path)) == (255, 255, 255)


def test_first_image_of_an_mpo_file_is_read(tmp_path: Path):
    views = [Image.new("RGB", (8, 8), name) for name in ("white", "black")]
    views[0].save(tmp_path / "a.mpo", save_all=True, append_images=views[1:])
    assert colour(open_image(tmp_path / "a.mpo")) == (255, 255, 255)


def test_heic_is_read_without_prior_registration(tmp_path: Path):
    heif = pytest.importorskip("pillow_heif")
    heif.from_pillow(Image.new("RGB", (64, 64), "white")).save(tmp_path / "a.heic")
    code = "import sys; from diverset.data import open_image; print(open_image(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path / "a.heic")]
    assert "64x64" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("kind", ["EPS", "PPM", "TGA", "ICO"])
def test_other_formats_of_pillow_are_rejected(tmp_path: Path, kind: str):
    path = save(Image.new("RGB", (16, 16), "white"), tmp_path / "a.jpg", format=kind)
    with pytest.raises(DataError, match="is not an image in a supported format"):
        open_image(path)


def tiff_that_is_an_im() -> bytes:
    """10 x 10 pixels as TIFF, 100 x 100 pixels as IM."""
    directory, pixels = 1024, 1224
    lines = b"Image type: Greyscale image\r\nImage size (x*y): 100*100\r\n"
    start = b"II*\0" + struct.pack("<I", directory) + b": x\r\n" + lines
    tags = [(256, 10), (257, 10), (258, 8), (259, 1), (262, 1), (273, pixels), (277, 1), (278, 10)]
    entries = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in [*tags, (279, 100)]]
    listed = struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4)
    data = (start.ljust(511, b"\0") + b"\x1a").ljust(directory, b"\0") + listed
    return data.ljust(pixels + 20_000, b"\0")


@pytest.mark.filterwarnings("ignore:IM image format")
def test_polyglot_file_is_decoded_in_the_allowed_format():
    data = tiff_that_is_an_im()
    assert Image.open(io.BytesIO(data), formats=["IM"]).size == (100, 100)
    assert open_image("both", data=data).size == (10, 10)
