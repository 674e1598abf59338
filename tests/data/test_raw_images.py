"""RAW files: the preview of the camera, else the developed sensor data."""

import io
import sys

import pytest
from PIL import Image
from raw_support import make_dng

from diverset.data.images import open_image
from diverset.data.raw_images import raw_metadata
from diverset.errors import DataError, MissingExtraError

pytest.importorskip("rawpy")


def jpeg(size: tuple[int, int]) -> tuple[bytes, int, int]:
    """A preview that is blue at the left and red at the right."""
    image = Image.new("RGB", size, "red")
    image.paste("blue", (0, 0, size[0] // 2, size[1]))
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=95)
    return stream.getvalue(), *size


def is_blue(colour) -> bool:
    return colour[2] > 200 and colour[0] < 50


@pytest.mark.parametrize("name", ["a.dng", "b.DNG", "c.nef"])
def test_the_embedded_preview_is_read(tmp_path, name):
    (tmp_path / name).write_bytes(make_dng(jpeg((800, 600))))
    image = open_image(tmp_path / name)
    assert image.size == (800, 600)
    assert is_blue(image.getpixel((9, 9))) and not is_blue(image.getpixel((790, 9)))
    assert min(open_image(tmp_path / name, min_size=100).size) < 600  # decoded at a smaller size


def test_previews_are_upright():
    data = make_dng(jpeg((800, 600)), orientation=6)
    image = open_image("a.dng", data=data)
    assert image.size == (600, 800)
    assert is_blue(image.getpixel((9, 9))) and is_blue(image.getpixel((590, 9)))
    assert raw_metadata(data) == {"width": 600, "height": 800, "taken": "2021-07-04T12:30:00"}


@pytest.mark.parametrize("preview", [None, jpeg((160, 120))])
def test_without_a_large_preview_the_sensor_data_is_developed(preview):
    image = open_image("a.dng", data=make_dng(preview))
    assert image.size == (400, 300)
    assert min(image.getpixel((9, 9))) > max(image.getpixel((390, 9))) + 50


def test_unknown_dates_are_left_out():
    assert "taken" not in raw_metadata(make_dng(taken="0000:00:00 00:00:00"))


def test_damaged_and_huge_raw_files_are_rejected(monkeypatch):
    data = make_dng(jpeg((800, 600)))
    for damaged in (data[:500], b"not a raw file", b""):
        with pytest.raises(DataError, match="cannot decode the image a.dng"):
            open_image("a.dng", data=damaged)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10_000)
    with pytest.raises(DataError, match="800 x 600 pixels"):
        open_image("a.dng", data=data)


def test_the_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "rawpy", None)
    with pytest.raises(MissingExtraError, match=r"diverset\[raw\]"):
        open_image("a.dng", data=make_dng())
