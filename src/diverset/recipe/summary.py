"""What a dataset holds: counts, missing and broken image files, sample captions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diverset.data import CaptionDataset, open_image
from diverset.errors import DataError, a_few
from diverset.runtime.prefetch import prefetch
from diverset.runtime.progress import Progress, TaskCallback

MIN_SIZE = 64  # a JPEG is read to its end, but decoded at down to 1/8 of its size
SAMPLES = 3


@dataclass(frozen=True)
class SplitSummary:
    """Content of a split; a list of files is None if they were not checked.

    Attributes:
        captions_per_image: minimum, mean, maximum.
        words_per_caption: minimum, median, maximum; words are separated by spaces.
        duplicate_captions: captions that equal an earlier one of the split, ignoring case.
        samples: pairs of file name, or image id without files, and caption.
    """

    images: int
    captions: int
    captions_per_image: tuple[int, float, int]
    words_per_caption: tuple[int, float, int]
    duplicate_captions: int
    missing_files: tuple[str, ...] | None
    broken_files: tuple[str, ...] | None
    samples: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        fewest, mean, most = self.captions_per_image
        shortest, median, longest = self.words_per_caption
        lines = [
            f"{self.images:,} images, {self.captions:,} captions",
            f"captions per image: {fewest} to {most}, mean {mean:.2f}",
            f"words per caption: {shortest} to {longest}, median {median:g}",
            f"duplicate captions: {self.duplicate_captions:,}",
            f"missing image files: {_list(self.missing_files, 'no folder of images')}",
            f"broken image files: {_list(self.broken_files, 'images not decoded')}",
            *(f"{name}: {caption}" for name, caption in self.samples),
        ]
        return "\n".join(f"  {line}" for line in lines)


def summarize(dataset: CaptionDataset, progress: Progress | None = None) -> SplitSummary:
    """Count what a split holds; with `progress`, also decode every image, at reduced size.

    The split must have been read with missing="keep", which also names files that do not exist.
    """
    paths, missing, broken = dataset.image_paths, None, None
    if paths is not None:
        missing = tuple(str(path) for path in paths if not path.is_file())
        if progress is not None:
            broken = _broken_files(paths, progress.task(f"decoding images of {dataset.name}"))
    per_image = np.bincount(dataset.image_index)
    words = [len(caption.split()) for caption in dataset.captions]
    rows = np.random.default_rng(0).permutation(len(words))[:SAMPLES]
    names = dataset.image_ids if paths is None else [path.name for path in paths]
    return SplitSummary(
        images=len(dataset),
        captions=len(words),
        captions_per_image=(int(per_image.min()), float(per_image.mean()), int(per_image.max())),
        words_per_caption=(min(words), float(np.median(words)), max(words)),
        duplicate_captions=len(words) - len({caption.lower() for caption in dataset.captions}),
        missing_files=missing,
        broken_files=broken,
        samples=tuple((names[dataset.image_index[r]], dataset.captions[r]) for r in rows),
    )


def _broken_files(paths: Sequence[Path], progress: TaskCallback) -> tuple[str, ...]:
    broken = []
    for index, is_broken in enumerate(prefetch(_is_broken, paths, workers=4)):
        broken += [str(paths[index])] if is_broken else []
        progress(index + 1, len(paths))
    return tuple(broken)


def _is_broken(path: Path) -> bool:
    try:
        open_image(path, MIN_SIZE)
    except DataError:
        return path.is_file()  # otherwise it is missing
    return False


def _list(files: tuple[str, ...] | None, reason: str) -> str:
    if files is None:
        return f"not checked ({reason})"
    return f"{len(files):,}" + (f": {a_few(files)}" if files else "")
