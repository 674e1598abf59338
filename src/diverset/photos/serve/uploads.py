"""Checking uploaded images before they are decoded: known formats, bounded size."""

from __future__ import annotations

import io
import logging

from PIL import Image

from diverset.data.images import formats
from diverset.errors import DataError
from diverset.photos.serve.limits import Limits

log = logging.getLogger("diverset.photos.serve")


def check_upload(data: bytes, limits: Limits) -> None:
    """Raise unless this is the start of an image of a size that is safe to decode."""
    try:
        with Image.open(io.BytesIO(data), formats=formats()) as image:
            width, height = image.size
    except Image.DecompressionBombError as error:
        log.warning("rejected: %s", error)
        raise DataError("the image has far too many pixels; make it smaller") from error
    except Exception as error:  # headers of hostile files raise nearly everything
        log.warning("rejected: an upload of %d bytes is not an image (%s)", len(data), error)
        raise DataError(f"the upload is not an image; send {', '.join(formats())}") from error
    if width * height > limits.pixels:
        log.warning("rejected: an upload of %d x %d pixels", width, height)
        raise DataError(
            f"the image has {width} x {height} pixels, {limits.pixels:,} are allowed; "
            "make it smaller"
        )
