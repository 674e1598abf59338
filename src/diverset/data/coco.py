"""MS-COCO's own caption files, split by arrays of caption ids.

The files are captions_train2014.json, captions_val2014.json and the int64 arrays
coco_{train,restval,dev,test}_ids.npy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from diverset.data.dataset import CaptionDataset
from diverset.data.image_files import attach_images
from diverset.errors import DataError, a_few
from diverset.runtime.files import load_array, read_json_object


def read_coco(
    captions_json: Sequence[Path],
    ids_npy: Sequence[Path] | None,
    image_root: Path | None,
    *,
    missing: str = "error",
) -> CaptionDataset:
    """Read captions by id; images are in the order in which the ids first name them.

    Args:
        captions_json: one or more captions_*.json files.
        ids_npy: one or more arrays of caption ids, or None for all captions of the files.
        image_root: the folder of the images, or None for captions only. An image may be directly
            in it or in the folder of its year, such as train2014.
        missing: what to do about missing images; see `attach_images`.
    """
    files: dict[int, list[str]] = {}
    annotations: dict[int, tuple[int, str]] = {}
    for json_file in captions_json:
        _read_annotations(json_file, files, annotations)
    ids = list(annotations)
    if ids_npy is not None:
        ids = [caption for file in ids_npy for caption in _read_ids(file)]
    unknown = [caption for caption in ids if caption not in annotations]
    if unknown:
        raise DataError(
            f"{len(unknown)} caption ids are not in {a_few([*map(str, captions_json)])}: "
            f"{a_few(unknown)}; give the JSON files of both train2014 and val2014"
        )
    grouped: dict[int, list[int]] = {}
    for caption in ids:
        grouped.setdefault(annotations[caption][0], []).append(caption)
    ordered = [caption for group in grouped.values() for caption in group]
    dataset = CaptionDataset(
        name="coco",
        image_ids=tuple(str(image) for image in grouped),
        captions=tuple(annotations[caption][1] for caption in ordered),
        image_index=np.repeat(np.arange(len(grouped)), [len(group) for group in grouped.values()]),
        caption_ids=tuple(str(caption) for caption in ordered),
    )
    return attach_images(dataset, image_root, [files[image] for image in grouped], missing)


def _read_annotations(
    file: Path, files: dict[int, list[str]], annotations: dict[int, tuple[int, str]]
) -> None:
    """Add the images and captions of one JSON file to `files` and `annotations`."""
    content = read_json_object(file)
    # captions_val2014.json describes the images in val2014/.
    folder = file.stem.rpartition("_")[2]
    try:
        for image in content["images"]:
            filename = str(image["file_name"])
            files[int(image["id"])] = [filename, f"{folder}/{filename}"]
        for annotation in content["annotations"]:
            image = int(annotation["image_id"])
            if image not in files:
                raise DataError(
                    f"caption {annotation['id']} of {file} refers to image {image}, which is "
                    "not in 'images'; download the file again"
                )
            annotations[int(annotation["id"])] = (image, str(annotation["caption"]).strip())
    except (KeyError, TypeError) as error:
        raise DataError(
            f"{file} has no {error}; a COCO caption file has images[].id, images[].file_name, "
            "annotations[].id, annotations[].image_id and annotations[].caption"
        ) from error


def _read_ids(file: Path) -> list[int]:
    array = load_array(file)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"{file} holds {array.dtype} of shape {array.shape}; give a list of integer ids"
        )
    ids: list[int] = array.tolist()
    return ids
