"""CxC between images and texts, from annotation files in the layout that VSE-infinity published.

A folder `cxc_annots` holds `testall_ids.txt` (the id of the image, once for each caption or once
for each image), `testall_capids.txt` (one id per caption) and `cxc_it.json`:
{"i2t": {image id: [[caption id, ...], ...]}, "t2i": {caption id: [[image id, ...], ...]}}; the
first entry of every inner list is the id of a match.

Two rules follow the published evaluation: matches that are not in the lists of ids are ignored, and
a query without matches is a miss. The package behind `diverset.evaluation.eccv` has CxC as well,
but ignores such queries. On a part of the annotated images, queries that had matches and have none
left are skipped. Comparisons within one modality are not implemented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diverset.errors import DataError, InputError
from diverset.evaluation.annotated import annotated_captions, check_images, restrict, share
from diverset.evaluation.ensemble import Member
from diverset.evaluation.recall import LEVELS
from diverset.evaluation.top import top_ranked
from diverset.runtime.files import read_json_object, read_lines


@dataclass(frozen=True)
class CxcAnnotations:
    """The ids of the matches of each item, the items in the order of the files."""

    image_to_text: Mapping[str, frozenset[str]]
    text_to_image: Mapping[str, frozenset[str]]


def read_cxc(folder: str | PathLike[str]) -> CxcAnnotations:
    """Read `testall_ids.txt`, `testall_capids.txt` and `cxc_it.json` from a folder."""
    folder = Path(folder)
    # An image is listed once for each of its captions; the first occurrence gives the order.
    images = list(dict.fromkeys(_read_ids(folder / "testall_ids.txt")))
    captions = _read_ids(folder / "testall_capids.txt")
    if len(set(captions)) < len(captions):
        raise DataError(
            f"{folder / 'testall_capids.txt'} has duplicate ids; give one line per caption"
        )
    matches = read_json_object(folder / "cxc_it.json")
    try:
        return CxcAnnotations(
            image_to_text=_matches(matches["i2t"], images, captions),
            text_to_image=_matches(matches["t2i"], captions, images),
        )
    except (KeyError, TypeError, IndexError) as error:
        raise DataError(
            f"{folder / 'cxc_it.json'} cannot be read ({type(error).__name__}: {error}); it maps "
            "'i2t' and 't2i' from each id of the two lists to lists of [id, ...]"
        ) from error


def cxc_scores(
    members: Sequence[Member],
    annotations: CxcAnnotations,
    image_ids: Sequence[str],
    caption_ids: Sequence[str] | None = None,
) -> dict[str, str | dict[str, str] | dict[str, float]]:
    """R@1, R@5 and R@10 in percent, and how much of the annotated collection is there.

    The images may be a part of the annotated ones. Without caption ids, as in SCAN's precomp
    folders, the collection must be the whole one in the order of the annotations.
    """
    all_images, all_captions = annotations.image_to_text, annotations.text_to_image
    if caption_ids is None:
        sizes = len(members[0].images), len(members[0].texts)
        expected = len(all_images), len(all_captions)
        if sizes != expected:
            raise InputError(
                f"there are {sizes[0]} images and {sizes[1]} captions without ids, and annotations "
                f"of {expected[0]} and {expected[1]}; read a file with caption ids, or encode the "
                "whole collection in the order of the annotations"
            )
        image_ids, caption_ids = list(all_images), list(all_captions)
    check_images(image_ids, all_images)
    members, captions = annotated_captions(members, caption_ids, all_captions)
    to_text = restrict(all_images, image_ids, all_captions.keys() - set(captions))
    to_image = restrict(all_captions, captions, all_images.keys() - set(image_ids))
    top = top_ranked(members)
    text_recalls = _recalls(top.image_to_text, image_ids, captions, to_text)
    image_recalls = _recalls(top.text_to_image, captions, image_ids, to_image)
    return {
        "images": share(image_ids, all_images),
        "captions": share(captions, all_captions),
        "queries": {"i2t": share(to_text, all_images), "t2i": share(to_image, all_captions)},
        **{name: {"i2t": text_recalls[name], "t2i": image_recalls[name]} for name in text_recalls},
    }


def _recalls(
    ranked: NDArray[np.int64],
    queries: Sequence[str],
    items: Sequence[str],
    matches: Mapping[str, frozenset[str]],
) -> dict[str, float]:
    hits = np.array(
        [
            [items[item] in matches[query] for item in best]
            for query, best in zip(queries, ranked.tolist(), strict=True)
            if query in matches
        ]
    )
    return {f"cxc_r{level}": 100 * float(hits[:, :level].any(1).mean()) for level in LEVELS}


def _matches(
    annotated: Mapping[str, Any], queries: Sequence[str], items: Sequence[str]
) -> dict[str, frozenset[str]]:
    known = set(items)
    return {
        query: frozenset(str(match[0]) for match in annotated[query]) & known for query in queries
    }


def _read_ids(file: Path) -> list[str]:
    ids = [line for line in read_lines(file) if line]
    if not ids:
        raise DataError(f"{file} is empty; it holds one id per line")
    return ids
