"""Opening pictures as people have them, always as upright RGB.

Phones turn pictures by a tag, scans have 16 bits, logos are transparent, downloads are cut off:
all of these either become an RGB picture or a `DataError` that names the file. Resizing and
normalising are in `preprocess`. Pillow comes with the extra `data`.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from diverset.errors import DataError, import_extra

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")  # MPO, of phones, is read as JPEG


def open_picture(path: str | Path, at_least: int | None = None, data: bytes | None = None) -> Image:
    """Read a picture: first frame, upright, RGB, transparency over white.

    Args:
        path: a file of one of the `formats`.
        at_least: decode a larger JPEG at a half, a quarter or an eighth of its size as long as
            both sides stay this long, and average deep levels likewise; several times faster
            for photographs of many megapixels.
        data: the file's content, where it is already read; the path then only names it.

    Raises:
        DataError: the file is missing, not a picture, cut off, or too large to be decoded safely
            (Pillow's `Image.MAX_IMAGE_PIXELS`).
    """
    pillow = import_extra("PIL.Image", "data")
    try:
        with pillow.open(path if data is None else io.BytesIO(data), formats=formats()) as stored:
            _refuse_bomb(path, stored, pillow.MAX_IMAGE_PIXELS)
            if at_least is not None:
                stored.draft(None, (at_least, at_least))
            stored.load()
            return _as_rgb(_upright(stored), at_least)
    except DataError:
        raise
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder; give one picture of it") from error
    except FileNotFoundError as error:
        raise DataError(f"there is no picture {path}; check the path") from error
    except (pillow.DecompressionBombError, pillow.DecompressionBombWarning) as error:
        raise DataError(_bomb(path, str(error))) from error
    except pillow.UnidentifiedImageError as error:
        raise DataError(
            f"{path} is not a picture of a format that is read ({', '.join(formats())}); "
            "convert it to JPEG or PNG"
        ) from error
    except Exception as error:  # decoders of damaged files raise nearly everything there is
        raise DataError(
            f"cannot decode the picture {path} ({error}); it is damaged or cut off, get it again"
        ) from error


def formats() -> tuple[str, ...]:
    """What pictures may be. Pillow has more decoders, some of which start other programs."""
    return (*FORMATS, "HEIF") if allow_heic() else FORMATS


def allow_heic() -> bool:
    """Teach Pillow HEIC, if the extra `heic` is installed; costs microseconds when it knows."""
    try:
        import_extra("pillow_heif", "heic").register_heif_opener()
    except ImportError:
        return False
    return True


def _refuse_bomb(path: str | Path, picture: Image, limit: int | None) -> None:
    # Pillow itself only warns up to twice its limit.
    if limit is not None and picture.width * picture.height > limit:
        raise DataError(_bomb(path, f"{picture.width} x {picture.height} pixels"))


def _bomb(path: str | Path, reason: str) -> str:
    return (
        f"{path} is too large to be decoded safely ({reason}); make it smaller, or raise "
        "PIL.Image.MAX_IMAGE_PIXELS if you trust it"
    )


def _upright(picture: Image) -> Image:
    operations = import_extra("PIL.ImageOps", "data")
    try:
        turned: Image = operations.exif_transpose(picture)
    except Exception:  # a damaged tag says nothing about the pixels
        return picture.copy()
    return turned


def _as_rgb(picture: Image, at_least: int | None) -> Image:
    if picture.mode == "RGB":
        return picture
    if picture.mode.startswith("I") or picture.mode == "F":
        return _from_deep(picture, at_least)
    if picture.has_transparency_data:
        pillow = import_extra("PIL.Image", "data")
        layer = picture.convert("RGBA")
        ground: Image = pillow.new("RGB", layer.size, "white")
        ground.paste(layer, mask=layer)
        return ground
    return picture.convert("RGB")


def _from_deep(picture: Image, at_least: int | None) -> Image:
    """Grey levels of more than 8 bits; Pillow's own conversion would clip them to white."""
    pillow = import_extra("PIL.Image", "data")
    step = min(picture.size) // (at_least or max(picture.size))
    if step > 1:  # before the levels are unpacked, which takes several times their memory
        size = (picture.width // step, picture.height // step)
        picture = picture.resize(size, pillow.Resampling.BOX)
    levels = np.array(picture, dtype=np.float32)
    highest = float(np.nanmax(levels, initial=0.0))
    if picture.mode.startswith("I;16") or highest > 255:
        levels *= 255 / 65535
    elif picture.mode == "F" and highest <= 1:
        levels *= 255
    np.nan_to_num(levels, copy=False)
    grey = levels.clip(0, 255, out=levels).round(out=levels).astype(np.uint8)
    found: Image = pillow.fromarray(grey).convert("RGB")
    return found
