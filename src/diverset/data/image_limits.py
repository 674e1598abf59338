"""Limits of image files, checked before anything is decoded.

A file of a few kilobytes can describe an image that takes gigabytes. What an image needs depends on
its pixels, on its format (a progressive JPEG and a WebP are decoded into buffers besides the image)
and on what is kept of it. One side is limited too: the coefficients of resizing grow with it.
"""

from __future__ import annotations

from PIL import Image

from diverset.errors import DataError

MAX_FILE_BYTES = 256 * 2**20  # no photograph is larger
MAX_SIDE = 65_535  # pixels; the largest JPEG
MAX_MEMORY = 512 * 2**20  # bytes for one image: its file, decoder and pixels
ONE_BYTE_MODES = ("1", "L", "P")
DECODER_BYTES = {"WEBP": 12, "AVIF": 12, "HEIF": 5, "TIFF": 4, "GIF": 4}  # per pixel, beside it


def check_limits(image: Image.Image, file_bytes: int, min_size: int | None) -> None:
    """Raise a `DataError` if an opened image, not yet decoded, is too large to be decoded safely.

    `file_bytes` are held in memory; `min_size` is that of `open_image`.
    """
    width, height = image.size
    if max(width, height) > MAX_SIDE:
        raise DataError(f"{width} x {height} pixels; a side may have at most {MAX_SIDE:,}")
    limit = Image.MAX_IMAGE_PIXELS  # Pillow itself only warns up to twice its limit
    if limit is not None and width * height > limit:
        raise DataError(
            f"{width} x {height} pixels; at most {limit:,} are decoded, raise "
            "PIL.Image.MAX_IMAGE_PIXELS if you trust it"
        )
    needed = file_bytes + _decoder_bytes(image) + _image_bytes(image, min_size)
    if needed > MAX_MEMORY:
        raise DataError(
            f"{width} x {height} pixels; decoding them takes about {needed / 2**20:,.0f} MiB of "
            f"memory, at most {MAX_MEMORY // 2**20} are used"
        )


def shrink_step(size: tuple[int, int], min_size: int | None) -> int:
    """By how much both sides can be divided and keep `min_size` pixels.

    >>> shrink_step((4000, 3000), 500), shrink_step((4000, 3000), None), shrink_step((9, 9), 500)
    (6, 1, 1)
    """
    return max(1, min(size) // min_size) if min_size else 1


def _decoder_bytes(image: Image.Image) -> int:
    """Buffers of the decoder, which cover the whole image whatever is kept of it."""
    per_pixel = DECODER_BYTES.get(image.format or "", 0)
    if image.info.get("progressive"):
        per_pixel += 2 * len(image.getbands())  # all coefficients
    return image.width * image.height * per_pixel


def _image_bytes(image: Image.Image, min_size: int | None) -> int:
    """The decoded image, and its conversion to RGB."""
    width, height = image.size
    step = shrink_step(image.size, min_size)
    if image.format in ("JPEG", "MPO"):  # decoded at 1/2, 1/4 or 1/8 of its size
        scale = max(factor for factor in (1, 2, 4, 8) if factor <= step)
        width, height, step = width // scale, height // scale, 1
    pixels = width * height
    if image.mode.startswith(("I", "F")):
        return pixels * 4 + pixels // step**2 * 9  # float32, uint8 and RGB
    return pixels * (1 if image.mode in ONE_BYTE_MODES else 4) + pixels // step**2 * 4
