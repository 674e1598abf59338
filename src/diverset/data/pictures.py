"""Finding the picture files that a dataset's annotations speak of.

It only asks whether files are there; it opens and decodes none of them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from diverset.data.collection import Collection
from diverset.errors import DataError, a_few, check_choice

logger = logging.getLogger(__name__)

MISSING = ("error", "skip")


def attach_pictures(
    collection: Collection,
    image_root: str | Path | None,
    places: Sequence[Sequence[str]],
    missing: str = "error",
) -> Collection:
    """Give each image of a collection the first of its places that exists.

    Args:
        collection: a split that has no pictures yet.
        image_root: the folder that places are relative to; None leaves pictures out, for
            those who only have captions and features.
        places: for each image the paths to try, in order.
        missing: "error" raises when a file is not there, "skip" logs a warning and leaves the
            image and its captions out.
    """
    check_choice("missing", missing, MISSING)
    if image_root is None:
        return collection
    root = Path(image_root)
    found: list[Path] = []
    kept: list[int] = []
    absent: list[str] = []
    for index, candidates in enumerate(places):
        path = next((root / place for place in candidates if (root / place).is_file()), None)
        if path is None:
            absent.append(candidates[0])
        else:
            found.append(path)
            kept.append(index)
    if absent:
        report = (
            f"{len(absent)} of {len(places)} pictures of {collection.name} "
            f"are not under {root}: {a_few(absent)}"
        )
        if missing == "error" or not found:
            raise DataError(f'{report}; check image_root, or pass missing="skip" to go without')
        logger.warning("%s; they are left out", report)
        collection = collection.subset(kept)
    return replace(collection, pictures=tuple(found))
