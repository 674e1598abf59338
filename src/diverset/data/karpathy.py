"""Karpathy's split files: dataset_flickr8k.json, dataset_flickr30k.json, dataset_coco.json."""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from diverset.data.dataset import CaptionDataset
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
            missing: what to do about missing images, "error", "skip" or "keep".
        """
        ids: list[str] = []
        candidates: list[list[str]] = []
        captions: list[str] = []
        image_index: list[int] = []
        caption_ids: list[str | None] = []
        entries = _of_split(self.path, self.entries, split)
        for entry in entries:
            filename = str(entry["filename"])
            in_folder = PurePosixPath(str(entry.get("filepath", "")), filename)
            candidates.append([str(in_folder), filename])
            for sentence in entry["sentences"]:
                captions.append(str(sentence["raw"]).strip())
                caption_ids.append(str(sentence["sentid"]) if "sentid" in sentence else None)
                image_index.append(len(ids))
            ids.append(str(entry["cocoid"]) if "cocoid" in entry else PurePosixPath(filename).stem)
        known = [caption_id for caption_id in caption_ids if caption_id is not None]
        has_labels = any("labels" in entry for entry in entries)
        dataset = CaptionDataset(
            name=f"{self.name}/{split}",
            image_ids=tuple(ids),
            captions=tuple(captions),
            image_index=np.array(image_index, dtype=np.int64),
            caption_ids=tuple(known) if len(known) == len(captions) else None,
            labels=tuple(_labels(entry) for entry in entries) if has_labels else None,
        )
        return attach_images(dataset, image_root, candidates, missing)


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


def _of_split(file: str | Path, entries: list[dict[str, Any]], split: str) -> list[dict[str, Any]]:
    counts = Counter(str(entry["split"]) for entry in entries)
    names = list(counts) if split == "all" and "all" not in counts else split.split("+")
    for name in names:
        if name not in counts:
            known = ", ".join(f"{known} ({count})" for known, count in sorted(counts.items()))
            raise DataError(f"{file} has no split {name!r}; it has: {known or 'no images'}")
    return [entry for entry in entries if entry["split"] in names]
