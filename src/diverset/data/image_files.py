"""Find the image files that the annotations of a dataset name."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from diverset.data.dataset import CaptionDataset
from diverset.data.raw_images import RAW_SUFFIXES
from diverset.errors import DataError, a_few, check_choice

logger = logging.getLogger(__name__)

MISSING = ("error", "skip", "keep")
HEIC_SUFFIXES = (".heic", ".heif", ".hif")  # need the extra `heic`
IMAGE_SUFFIXES = (
    ".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".avif", ".gif", ".bmp", ".tif", ".tiff",
    *HEIC_SUFFIXES, *RAW_SUFFIXES,
)  # fmt: skip


def attach_images(
    dataset: CaptionDataset,
    image_root: str | Path | None,
    candidates: Sequence[Sequence[str]],
    missing: str = "error",
) -> CaptionDataset:
    """Give each image of a dataset the first of its candidate paths that exists.

    Args:
        dataset: a split without image paths.
        image_root: the folder that the paths are relative to; None leaves image paths out, for
            datasets with captions and features only.
        candidates: for each image the paths to try, in order.
        missing: "error" raises if a file is missing, "skip" logs a warning and leaves the image
            and its captions out, "keep" gives the image its first candidate path.
    """
    check_choice("missing", missing, MISSING)
    if image_root is None:
        return dataset
    root = Path(image_root)
    paths: dict[int, Path] = {}
    absent: list[str] = []
    for index, names in enumerate(candidates):
        path = next((root / name for name in names if (root / name).is_file()), None)
        if path is None and missing == "keep":
            path = root / names[0]
        if path is None:
            absent.append(names[0])
        else:
            paths[index] = path
    if absent:
        report = (
            f"{len(absent)} of {len(candidates)} images of {dataset.name} "
            f"are not under {root}: {a_few(absent)}"
        )
        if missing == "error" or not paths:
            raise DataError(
                f"{report}; give the folder that their names are relative to (data.images, or "
                '--images of `diverset evaluate`), or pass missing="skip"'
            )
        logger.warning("%s; they are left out", report)
        dataset = dataset.subset(paths)
    return replace(dataset, image_paths=tuple(paths.values()))
