"""The contact sheet: order, sizes, missing files."""

import pytest
from photos.library_support import make_image
from PIL import Image

from diverset.photos.search.contact_sheet import GAP, MAX_TILES, MISSING, contact_sheet


def make_photos(folder, count):
    paths = []
    for number in range(count):
        path = folder / f"{number}.png"
        Image.new("RGB", (60, 40), (10 * number, 200, 0)).save(path)
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("width", [80, 130, 400, 1200])
@pytest.mark.parametrize("count", [1, 5, 60])
def test_the_sheet_is_at_most_as_wide_as_the_terminal(tmp_path, width, count):
    paths = make_photos(tmp_path, min(count, 25)) * (1 + count // 25)
    sheet = contact_sheet(paths[:count], paths[:count], width)
    assert sheet.width <= max(width, 132) and sheet.height < 30 * 300


def test_tiles_are_in_the_order_of_the_hits(tmp_path):
    paths = make_photos(tmp_path, 4)
    sheet = contact_sheet(paths, ["x"] * 4, 2 * 140 + GAP)  # two columns
    tile = (sheet.width - GAP) // 2
    rows = [GAP + tile - 20, GAP + tile - 20 + sheet.height // 2]
    centres = [
        sheet.getpixel((GAP + tile // 2 + column * tile, y)) for y in rows for column in (0, 1)
    ]
    assert [colour[0] for colour in centres] == [0, 10, 20, 30]


def test_missing_files_are_grey_and_the_number_of_tiles_is_limited(tmp_path):
    good = str(make_image(tmp_path / "a.png", 1))
    sheet = contact_sheet([str(tmp_path / "gone.png"), good], ["gone.png", "a.png"], 400)
    assert sheet.getpixel((GAP + 60, GAP + 60)) == MISSING
    many = contact_sheet([good] * 100, ["a.png"] * 100, 1200)
    assert many.size == contact_sheet([good] * MAX_TILES, ["a.png"] * MAX_TILES, 1200).size
