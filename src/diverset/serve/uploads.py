"""Pictures that strangers send: bounded in pixels, by known decoders only, refused in words."""

from __future__ import annotations

import io
import logging

from PIL import Image

from diverset.data.images import formats
from diverset.errors import DataError
from diverset.serve.guard import Limits

log = logging.getLogger("diverset.serve")


def check_upload(data: bytes, limits: Limits) -> None:
    """Raise unless this is the beginning of a picture of a size that is safe to decode."""
    try:
        with Image.open(io.BytesIO(data), formats=formats()) as picture:
            width, height = picture.size
    except Image.DecompressionBombError as error:
        log.warning("refused: %s", error)
        raise DataError("the picture has far too many pixels; make it smaller") from error
    except Exception as error:  # headers of hostile files raise nearly everything there is
        log.warning("refused: an upload of %d bytes is no picture (%s)", len(data), error)
        raise DataError(f"the upload is not a picture; send {', '.join(formats())}") from error
    if width * height > limits.pixels:
        log.warning("refused: an upload of %d x %d pixels", width, height)
        raise DataError(
            f"the picture has {width} x {height} pixels, {limits.pixels:,} are allowed; "
            "make it smaller"
        )
