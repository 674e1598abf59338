"""A contact sheet of hits: small images in rows, each with its rank and name."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

from diverset.data.images import open_image
from diverset.errors import DataError

MAX_TILES = 24
MIN_TILE, MAX_TILE = 120, 240  # pixels
GAP, LABEL, FONT_SIZE = 6, 18, 12
BACKGROUND, TEXT, MISSING = (24, 24, 24), (220, 220, 220), (60, 60, 60)


def contact_sheet(paths: Sequence[str], names: Sequence[str], width: int) -> Image.Image:
    """The first images in rows, at most `width` pixels wide; a missing file is a grey tile."""
    columns = max(1, min(len(paths), width // (MIN_TILE + GAP), 6))
    tile = max(MIN_TILE // 2, min(MAX_TILE, (width - GAP) // columns - GAP))
    shown = list(zip(paths, names, strict=True))[:MAX_TILES]
    rows = -(-len(shown) // columns)
    size = (columns * (tile + GAP) + GAP, rows * (tile + LABEL + GAP) + GAP)
    sheet = Image.new("RGB", size, BACKGROUND)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=FONT_SIZE)
    for rank, (path, name) in enumerate(shown):
        left = GAP + rank % columns * (tile + GAP)
        top = GAP + rank // columns * (tile + LABEL + GAP)
        image = _small(path, tile)
        sheet.paste(image, (left + (tile - image.width) // 2, top + tile - image.height))
        label = f"{rank + 1}  {name}"
        while len(label) > 1 and pen.textlength(label, font) > tile:
            label = label[:-2] + "…"
        pen.text((left, top + tile + 2), label, fill=TEXT, font=font)
    return sheet


def _small(path: str, side: int) -> Image.Image:
    try:
        image = open_image(path, side)
    except DataError:
        return Image.new("RGB", (side, side), MISSING)
    image.thumbnail((side, side))
    return image
