"""RAW files of cameras: the preview that the camera embedded, or a quick development (extra `raw`).

A preview is what the camera showed: its own colours, upright by EXIF, and fast to decode.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from PIL import Image

from diverset.data.image_limits import MAX_MEMORY
from diverset.errors import DataError, import_extra

RAW_SUFFIXES = (
    ".dng", ".cr2", ".cr3", ".nef", ".nrw", ".arw", ".orf", ".rw2", ".raf", ".pef", ".srw", ".3fr",
)  # fmt: skip
MIN_PREVIEW = 640  # pixels; smaller previews are icons
DEVELOPING_BYTES = 6  # per pixel: sensor data, four channels and RGB of half the size, the result
ROTATED = (5, 6)  # values of LibRaw's `flip` that swap width and height


def is_raw(path: str | Path) -> bool:
    """Whether a file is a RAW file by its name: its content often begins like a TIFF.

    >>> is_raw("IMG_7.CR2"), is_raw("IMG_7.tif")
    (True, False)
    """
    return str(path).lower().endswith(RAW_SUFFIXES)


def raw_preview(data: bytes) -> bytes:
    """The embedded JPEG of a RAW file, or else its sensor data at half the size, as BMP."""
    rawpy = import_extra("rawpy", "raw")
    with rawpy.imread(io.BytesIO(data)) as raw:
        limit = Image.MAX_IMAGE_PIXELS
        if limit is not None and raw.sizes.width * raw.sizes.height > limit:
            size = f"{raw.sizes.width} x {raw.sizes.height} pixels"
            raise DataError(f"{size}; at most {limit:,} are decoded")
        try:
            preview = raw.extract_thumb()
        except rawpy.LibRawNoThumbnailError:
            preview = None
        if preview is not None and preview.format == rawpy.ThumbFormat.JPEG:
            with Image.open(io.BytesIO(preview.data), formats=("JPEG",)) as image:
                if max(image.size) >= min(MIN_PREVIEW, raw.sizes.width, raw.sizes.height):
                    return bytes(preview.data)
        needed = 2 * len(data) + DEVELOPING_BYTES * raw.sizes.raw_width * raw.sizes.raw_height
        if needed > MAX_MEMORY:
            raise DataError(f"developing it takes about {needed / 2**20:,.0f} MiB of memory")
        developed = io.BytesIO()
        pixels = raw.postprocess(half_size=True, use_camera_wb=True)
        Image.fromarray(pixels).save(developed, "BMP")
        return developed.getvalue()


def raw_metadata(data: bytes) -> dict[str, Any]:
    """Upright width and height of a RAW file, and when it was taken."""
    with import_extra("rawpy", "raw").imread(io.BytesIO(data)) as raw:
        width, height = raw.sizes.width, raw.sizes.height
        if raw.sizes.flip in ROTATED:
            width, height = height, width
        taken = raw.other.timestamp
    known = taken is not None and taken.year > 1970  # LibRaw returns its epoch if there is none
    stamp = {"taken": taken.strftime("%Y-%m-%dT%H:%M:%S")} if known else {}
    return {"width": width, "height": height, **stamp}
