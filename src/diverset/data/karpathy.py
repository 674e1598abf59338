"""Karpathy's split files: dataset_flickr8k.json, dataset_flickr30k.json, dataset_coco.json."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from diverset.data.dataset import ALL, CaptionDataset
from diverset.data.image_files import attach_images
from diverset.errors import DataError
from diverset.runtime.files import read_json_object


class KarpathyFile:
    """A parsed Karpathy file, dataset_*.json; several splits of it can be read.

    The id of an image is its COCO id if the file has one, otherwise its file name without the
    suffix; bottom-up feature files use the same ids. An entry may have a list "labels", the names
    of objects in the image.
    """

    def __init__(self, path: str | Path) -> None:
        content = read_json_object(path)
        self.path, self.name = path, str(content.get("dataset", Path(path).stem))
        self.entries = _check_entries(path, content.get("images"))

    def read(
        self, image_root: str | Path | None, split: str, *, missing: str = "error"
    ) -> CaptionDataset:
        """Read one split.

        Args:
            image_root: the folder of the images, or None for captions only. An image may be in the
                sub-folder that the file names (COCO's train2014) or directly in the folder.
            split: a name such as "val", several joined by "+" such as "train+restval", or "all".
            missing: what to do about missing images; see `attach_images`.
        """
        entries = self._of_split(split)
        counts = [len(entry["sentences"]) for entry in entries]
        sentences = [sentence for entry in entries for sentence in entry["sentences"]]
        has_ids = all("sentid" in sentence for sentence in sentences)
        has_labels = any("labels" in entry for entry in entries)
        dataset = CaptionDataset(
            name=f"{self.name}/{split}",
            image_ids=tuple(str(entry.get("cocoid", _file(entry).stem)) for entry in entries),
            captions=tuple(str(sentence["raw"]).strip() for sentence in sentences),
            image_index=np.repeat(np.arange(len(entries)), counts),
            caption_ids=tuple(str(each["sentid"]) for each in sentences) if has_ids else None,
            labels=tuple(_labels(entry) for entry in entries) if has_labels else None,
        )
        candidates = [[str(_file(entry)), str(entry["filename"])] for entry in entries]
        return attach_images(dataset, image_root, candidates, missing)

    def _of_split(self, split: str) -> list[dict[str, Any]]:
        counts = Counter(str(entry["split"]) for entry in self.entries)
        names = list(counts) if split == ALL and ALL not in counts else split.split("+")
        for name in names:
            if name not in counts:
                known = ", ".join(f"{known} ({count})" for known, count in sorted(counts.items()))
                raise DataError(
                    f"{self.path} has no split {name!r}; it has: {known or 'no images'}"
                )
        return [entry for entry in self.entries if str(entry["split"]) in names]


def _file(entry: dict[str, Any]) -> PurePosixPath:
    return PurePosixPath(str(entry.get("filepath", "")), str(entry["filename"]))


def _labels(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(label) for label in entry.get("labels", ()))


def _check_entries(file: str | Path, entries: Any) -> list[dict[str, Any]]:
    if not isinstance(entries, list):
        raise DataError(f"{file} has no list 'images'; is it a Karpathy split file?")
    for number, entry in enumerate(entries):
        if not (
            isinstance(entry, dict)
            and {"split", "filename", "sentences"} <= entry.keys()
            and isinstance(entry["sentences"], list)
            and isinstance(entry.get("labels", []), list)
            and all(isinstance(item, dict) and "raw" in item for item in entry["sentences"])
        ):
            raise DataError(
                f"images[{number}] of {file} has no split, filename or sentences[].raw; "
                "download the file again"
            )
    return entries
