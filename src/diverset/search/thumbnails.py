"""Small JPEGs of pictures, for pages."""

from __future__ import annotations

import io
from pathlib import Path

from diverset.data.images import open_picture


def thumbnail(path: str | Path, side: int = 256) -> bytes:
    """A JPEG that fits in a square of `side` pixels."""
    picture = open_picture(path, at_least=side)
    picture.thumbnail((side, side))
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=85)
    return stream.getvalue()
