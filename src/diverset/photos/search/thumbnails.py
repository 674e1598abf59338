"""Small JPEGs of images, for pages."""

from __future__ import annotations

import io
from pathlib import Path

from diverset.data.images import open_image


def thumbnail(path: str | Path, side: int = 256, data: bytes | None = None) -> bytes:
    """A JPEG that fits in a square of `side` pixels; `data` if the file was read already."""
    image = open_image(path, side, data)
    image.thumbnail((side, side))
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=85)
    return stream.getvalue()
