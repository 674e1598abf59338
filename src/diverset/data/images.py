"""Open image files as upright RGB, or raise a `DataError` that names the file.

Handles EXIF rotation, 16-bit scans, transparency, truncated files and decompression bombs
(`image_limits`). Resizing and normalisation are in `preprocess`.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError
from PIL.Image import Transpose

from diverset.data.image_limits import MAX_FILE_BYTES, check_limits, shrink_step
from diverset.data.raw_images import is_raw, raw_preview
from diverset.errors import DataError, import_extra
from diverset.runtime.bounded_read import read_file

FORMATS = ("JPEG", "PNG", "WEBP", "AVIF", "GIF", "BMP", "TIFF")  # MPO (phones) is read as JPEG
LARGE = 16_000_000  # pixels; larger images are converted in strips, and shrunk on request
STRIP = 2_000_000  # pixels
ORIENTATION = 0x0112  # tag of EXIF
UPRIGHT = {
    2: Transpose.FLIP_LEFT_RIGHT,
    3: Transpose.ROTATE_180,
    4: Transpose.FLIP_TOP_BOTTOM,
    5: Transpose.TRANSPOSE,
    6: Transpose.ROTATE_270,
    7: Transpose.TRANSVERSE,
    8: Transpose.ROTATE_90,
}


def open_image(
    path: str | Path, min_size: int | None = None, data: bytes | None = None
) -> Image.Image:
    """Read an image: first frame, upright, RGB, transparency over white.

    Args:
        path: a file of one of the `formats`, or a RAW file by its name.
        min_size: decode a larger JPEG at 1/2, 1/4 or 1/8 of its size as long as both sides keep
            this many pixels, and shrink 16-bit and very large images as well; several times
            faster for photographs of many megapixels.
        data: the content of the file if it was read already; the path is then used in errors only.

    Raises:
        DataError: the file is missing, not an image, truncated, or too large to be decoded safely
            (`image_limits`).
    """
    if data is None:
        data = _read(path)
    if is_raw(path):
        import_extra("rawpy", "raw")
    try:
        rgb, turn = _decode(raw_preview(data) if is_raw(path) else data, min_size)
        return rgb if turn is None else rgb.transpose(turn)
    except (DataError, Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(
            f"{path} is too large to be decoded safely ({error}); make it smaller"
        ) from error
    except UnidentifiedImageError as error:
        raise DataError(
            f"{path} is not an image in a supported format ({', '.join(formats())}); "
            "convert it to JPEG or PNG"
        ) from error
    except Exception as error:  # decoders of damaged files raise nearly any exception
        raise DataError(
            f"cannot decode the image {path} ({error}); it is damaged or truncated, copy it again"
        ) from error


def _read(path: str | Path) -> bytes:
    try:
        return read_file(path, MAX_FILE_BYTES)
    except FileNotFoundError as error:
        raise DataError(f"there is no image {path}; check the path") from error
    except OSError as error:
        raise DataError(
            f"cannot read the image {path} ({error.strerror}); check the file"
        ) from error


def formats() -> tuple[str, ...]:
    """Formats that are read. Pillow has more decoders, some of which start other programs."""
    return (*FORMATS, "HEIF") if allow_heic() else FORMATS


def allow_heic() -> bool:
    """Register HEIC with Pillow if the extra `heic` is installed; takes microseconds if done."""
    try:
        import_extra("pillow_heif", "heic").register_heif_opener()
    except ImportError:
        return False
    return True


def _decode(data: bytes, min_size: int | None) -> tuple[Image.Image, Transpose | None]:
    """An image in RGB, and how it has to be turned to be upright."""
    with Image.open(io.BytesIO(data), formats=formats()) as stored:
        check_limits(stored, len(data), min_size)
        if min_size is not None:
            stored.draft(None, (min_size, min_size))
        stored.load()
        try:
            turn = UPRIGHT.get(stored.getexif().get(ORIENTATION, 1))
        except Exception:  # a damaged tag says nothing about the pixels
            turn = None
        is_large = stored.width * stored.height > LARGE and not _is_high_depth(stored)
        return (_in_strips if is_large else _to_rgb)(stored, min_size), turn


def _in_strips(image: Image.Image, min_size: int | None) -> Image.Image:
    """RGB, shrunk on request, without another copy of all pixels."""
    step = shrink_step(image.size, min_size)
    rgb = Image.new("RGB", (-(-image.width // step), -(-image.height // step)))
    rows = step * max(1, STRIP // (image.width * step))
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(top + rows, image.height)))
        rgb.paste(_to_rgb(strip, None).reduce(step), (0, top // step))
    return rgb


def _to_rgb(image: Image.Image, min_size: int | None) -> Image.Image:
    if image.mode == "RGB":
        return image.copy()
    if _is_high_depth(image):
        return _from_high_depth(image, min_size)
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        background = Image.new("RGB", layer.size, "white")
        background.paste(layer, mask=layer)
        return background
    return image.convert("RGB")


def _is_high_depth(image: Image.Image) -> bool:
    return image.mode.startswith("I") or image.mode == "F"


def _from_high_depth(image: Image.Image, min_size: int | None) -> Image.Image:
    """Convert grey levels of more than 8 bits; Pillow would clip them to white."""
    step = shrink_step(image.size, min_size)
    if step > 1:  # before the conversion to float32, which takes several times the memory
        size = (image.width // step, image.height // step)
        image = image.resize(size, Image.Resampling.BOX)
    levels = np.array(image, dtype=np.float32)
    highest = float(np.nanmax(levels, initial=0.0))
    if image.mode.startswith("I;16") or highest > 255:
        levels *= 255 / 65535
    elif image.mode == "F" and highest <= 1:
        levels *= 255
    np.nan_to_num(levels, copy=False)
    grey = levels.clip(0, 255, out=levels).round(out=levels).astype(np.uint8)
    return Image.fromarray(grey).convert("RGB")
