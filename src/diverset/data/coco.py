"""MS-COCO's own caption files, cut into splits by arrays of caption ids.

The files are captions_train2014.json, captions_val2014.json and the int64 arrays
coco_{train,restval,dev,test}_ids.npy. It does not know which ids make which published split.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diverset.data.collection import Collection
from diverset.data.files import read_json_object
from diverset.data.pictures import attach_pictures
from diverset.errors import DataError, a_few

Files = str | Path | Sequence[str | Path]


def read_coco(
    captions_json: Files,
    ids_npy: Files | None,
    image_root: str | Path | None,
    *,
    name: str = "coco",
    missing: str = "error",
) -> Collection:
    """Read captions by their ids; images come in the order in which the ids first name them.

    Args:
        captions_json: one or more captions_*.json files.
        ids_npy: one or more arrays of caption ids, or None for all captions of the files.
        image_root: the folder of the pictures, or None to leave pictures out. A picture may
            lie directly in it or in the folder of its year, such as train2014.
        name: what to call the collection.
        missing: "error" or "skip", what to do about pictures that are not there.
    """
    files: dict[int, list[str]] = {}
    annotations: dict[int, tuple[int, str]] = {}
    for json_file in _as_list(captions_json):
        _read_annotations(json_file, files, annotations)
    wanted = list(annotations) if ids_npy is None else _read_ids(_as_list(ids_npy))
    unknown = [caption for caption in wanted if caption not in annotations]
    if unknown:
        raise DataError(
            f"{len(unknown)} caption ids are not in {a_few(_names(captions_json))}: "
            f"{a_few(unknown)}; give the JSON files of both train2014 and val2014"
        )
    grouped: dict[int, list[int]] = {}
    for caption in wanted:
        grouped.setdefault(annotations[caption][0], []).append(caption)
    ordered = [caption for group in grouped.values() for caption in group]
    collection = Collection(
        name=name,
        image_ids=tuple(str(image) for image in grouped),
        captions=tuple(annotations[caption][1] for caption in ordered),
        owners=np.repeat(np.arange(len(grouped)), [len(group) for group in grouped.values()]),
        caption_ids=tuple(str(caption) for caption in ordered),
    )
    return attach_pictures(collection, image_root, [files[image] for image in grouped], missing)


def _read_annotations(
    file: str | Path, files: dict[int, list[str]], annotations: dict[int, tuple[int, str]]
) -> None:
    """Add the images and captions of one JSON file to what is known."""
    content = read_json_object(file)
    # captions_val2014.json speaks of the pictures in val2014/.
    folder = Path(file).stem.rpartition("_")[2]
    try:
        for image in content["images"]:
            filename = str(image["file_name"])
            files[int(image["id"])] = [filename, f"{folder}/{filename}"]
        for said in content["annotations"]:
            image = int(said["image_id"])
            if image not in files:
                raise DataError(
                    f"caption {said['id']} of {file} names image {image}, which is not in its "
                    "list 'images'; download the file again"
                )
            annotations[int(said["id"])] = (image, str(said["caption"]).strip())
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{file} lacks {error}; a COCO caption file has images[].id, images[].file_name, "
            "annotations[].id, annotations[].image_id and annotations[].caption"
        ) from error


def _read_ids(paths: list[str | Path]) -> list[int]:
    ids = [int(caption) for path in paths for caption in _load_ids(path)]
    seen: set[int] = set()
    for caption in ids:
        if caption in seen:
            raise DataError(
                f"caption id {caption} stands twice in {a_few(_names(paths))}; give each array once"
            )
        seen.add(caption)
    return ids


def _load_ids(path: str | Path) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"cannot read caption ids from {path}: {error}; get it again") from error
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"{path} holds {array.dtype} of shape {array.shape}; give a list of integer ids"
        )
    return array


def _as_list(paths: Files) -> list[str | Path]:
    return [paths] if isinstance(paths, str | Path) else list(paths)


def _names(paths: Files) -> list[str]:
    return [str(path) for path in _as_list(paths)]
