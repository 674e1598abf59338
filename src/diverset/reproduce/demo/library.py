"""A photo library of the test scenes, encoded by the trained model."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from diverset.evaluation.calibrate import calibrate
from diverset.evaluation.options import EvalOptions
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.runtime.progress import Progress


def build_library(folder: Path, photos: Path, images: Iterable[Path], run: Path) -> int:
    """Copy images into the folder `photos`, index them with the model of a run, and count them.

    The model is calibrated on its validation split first, so that searches show probabilities. A
    library of another model is built again.
    """
    photos.mkdir(parents=True, exist_ok=True)
    for image in images:
        if not (photos / image.name).exists():
            shutil.copy(image, photos)
    calibrate(str(run), EvalOptions())
    with (
        Library.open_or_create(folder, str(run.absolute()), rebuild=True) as library,
        library.indexing_lock(),
        Progress() as progress,
    ):
        return index_folders(library, [photos], progress).total
