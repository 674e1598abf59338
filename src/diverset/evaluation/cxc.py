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

import json
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


@dataclass(frozen=True)
class CxcAnnotations:
    """Ids in the order of the files, and the ids of each item's matches."""

    image_ids: tuple[str, ...]
    caption_ids: tuple[str, ...]
    image_to_text: Mapping[str, frozenset[str]]
    text_to_image: Mapping[str, frozenset[str]]


def read_cxc(folder: str | PathLike[str]) -> CxcAnnotations:
    """Read `testall_ids.txt`, `testall_capids.txt` and `cxc_it.json` from a folder."""
    folder = Path(folder)
    # An image is listed once for each of its captions; the first occurrence gives the order.
    images = tuple(dict.fromkeys(_lines(folder / "testall_ids.txt")))
    captions = tuple(_lines(folder / "testall_capids.txt"))
    if len(set(captions)) < len(captions):
        raise DataError(
            f"{folder / 'testall_capids.txt'} has duplicate ids; give one line per caption"
        )
    try:
        matches = json.loads((folder / "cxc_it.json").read_text(encoding="utf-8"))
        return CxcAnnotations(
            images,
            captions,
            image_to_text=_matches(matches["i2t"], images, captions),
            text_to_image=_matches(matches["t2i"], captions, images),
        )
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
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
    if caption_ids is None:
        sizes = len(members[0].images), len(members[0].texts)
        expected = len(annotations.image_ids), len(annotations.caption_ids)
        if sizes != expected:
            raise InputError(
                f"there are {sizes[0]} images and {sizes[1]} captions without ids, and annotations "
                f"of {expected[0]} and {expected[1]}; read a file with caption ids, or encode the "
                "whole collection in the order of the annotations"
            )
        image_ids, caption_ids = annotations.image_ids, annotations.caption_ids
    check_images(image_ids, annotations.image_to_text)
    members, captions = annotated_captions(members, caption_ids, annotations.text_to_image)
    missing_images = set(annotations.image_ids) - set(image_ids)
    missing_captions = set(annotations.caption_ids) - set(captions)
    to_text = restrict(annotations.image_to_text, image_ids, missing_captions)
    to_image = restrict(annotations.text_to_image, captions, missing_images)
    top = top_ranked(members)
    text_recalls = _recalls(top.image_to_text, image_ids, captions, to_text)
    image_recalls = _recalls(top.text_to_image, captions, image_ids, to_image)
    return {
        "images": share(image_ids, annotations.image_ids),
        "captions": share(captions, annotations.caption_ids),
        "queries": {
            "i2t": share(to_text, annotations.image_ids),
            "t2i": share(to_image, annotations.caption_ids),
        },
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


def _lines(file: Path) -> list[str]:
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read ({error}); it holds one id per line") from error
    ids = [line for line in lines if line]
    if not ids:
        raise DataError(f"{file} is empty; it holds one id per line")
    return ids
