"""Karpathy's split files: dataset_flickr8k.json, dataset_flickr30k.json, dataset_coco.json.

It knows the layout of the JSON file and nothing of features or tokens.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from diverset.data.collection import Collection
from diverset.data.files import read_json_object
from diverset.data.pictures import attach_pictures
from diverset.errors import DataError


def read_karpathy(
    json_file: str | Path,
    image_root: str | Path | None,
    split: str,
    *,
    missing: str = "error",
) -> Collection:
    """Read one split of a Karpathy file.

    An image's id is its COCO id where the file has one, otherwise its file name without the
    ending; these are also the ids of bottom-up feature files.

    Args:
        json_file: the dataset_*.json file.
        image_root: the folder of the pictures, or None to leave pictures out. A picture may
            lie in the sub-folder that the file names (COCO's train2014) or directly in it.
        split: a name such as "val", or several joined by "+" such as "train+restval".
        missing: "error" or "skip", what to do about pictures that are not there.
    """
    content = read_json_object(json_file)
    entries = content.get("images")
    if not isinstance(entries, list):
        raise DataError(f"{json_file} has no list 'images'; is it a Karpathy split file?")
    ids: list[str] = []
    places: list[list[str]] = []
    captions: list[str] = []
    owners: list[int] = []
    caption_ids: list[str | None] = []
    for entry in _of_split(json_file, entries, split):
        filename = str(entry["filename"])
        folder = str(entry.get("filepath", ""))
        places.append(list(dict.fromkeys([str(PurePosixPath(folder, filename)), filename])))
        for sentence in entry["sentences"]:
            captions.append(str(sentence["raw"]).strip())
            caption_ids.append(str(sentence["sentid"]) if "sentid" in sentence else None)
            owners.append(len(ids))
        ids.append(str(entry["cocoid"]) if "cocoid" in entry else PurePosixPath(filename).stem)
    known = [caption_id for caption_id in caption_ids if caption_id is not None]
    collection = Collection(
        name=f"{content.get('dataset', Path(json_file).stem)}/{split}",
        image_ids=tuple(ids),
        captions=tuple(captions),
        owners=np.array(owners, dtype=np.int64),
        caption_ids=tuple(known) if len(known) == len(captions) else None,
    )
    return attach_pictures(collection, image_root, places, missing)


def _of_split(file: str | Path, entries: list[Any], split: str) -> list[dict[str, Any]]:
    """The entries of the wanted splits, after a look at the shape of all of them."""
    for number, entry in enumerate(entries):
        if not (
            isinstance(entry, dict)
            and {"split", "filename", "sentences"} <= entry.keys()
            and isinstance(entry["sentences"], list)
            and all(isinstance(said, dict) and "raw" in said for said in entry["sentences"])
        ):
            raise DataError(
                f"images[{number}] of {file} lacks split, filename or sentences[].raw; "
                "download the file again"
            )
    counts = Counter(str(entry["split"]) for entry in entries)
    wanted = split.split("+")
    for name in wanted:
        if name not in counts:
            there = ", ".join(f"{there} ({count})" for there, count in sorted(counts.items()))
            raise DataError(f"{file} has no split {name!r}; it has: {there or 'no images'}")
    return [entry for entry in entries if entry["split"] in wanted]
