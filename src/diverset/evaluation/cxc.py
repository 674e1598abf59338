"""CxC between images and texts, from annotation files in the layout that VSE-infinity published.

A folder `cxc_annots` holds `testall_ids.txt` (the id of the image, once for each caption or once
for each image), `testall_capids.txt` (one id a caption) and `cxc_it.json`:
{"i2t": {image id: [[caption id, ...], ...]}, "t2i": {caption id: [[image id, ...], ...]}}; the
first entry of every inner list is the id of a match.

Two rules follow the published evaluation: matches that are not in the collection are left out,
and a query without matches is a miss. The package behind `diverset.evaluation.eccv` has CxC too,
but leaves such queries out. Comparisons within one modality need sets of one side only and are
not part of this module.
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
from diverset.evaluation.recall import LEVELS
from diverset.evaluation.top import Top


@dataclass(frozen=True)
class CxcAnnotations:
    """Which items match, as indices into the order of the id files.

    Attributes:
        image_ids: the images, in the order in which they have to be encoded.
        caption_ids: the captions, in the order in which they have to be encoded.
        image_to_text: for each image the captions that match.
        text_to_image: for each caption the images that match.
    """

    image_ids: tuple[str, ...]
    caption_ids: tuple[str, ...]
    image_to_text: tuple[frozenset[int], ...]
    text_to_image: tuple[frozenset[int], ...]


def read_cxc(folder: str | PathLike[str]) -> CxcAnnotations:
    """Read `testall_ids.txt`, `testall_capids.txt` and `cxc_it.json` of a folder."""
    folder = Path(folder)
    # An image stands there once for each of its captions; the order of first mention remains.
    images = tuple(dict.fromkeys(_lines(folder / "testall_ids.txt")))
    captions = tuple(_lines(folder / "testall_capids.txt"))
    if len(set(captions)) < len(captions):
        raise DataError(f"{folder / 'testall_capids.txt'} repeats ids; give one line a caption")
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
            "'i2t' and 't2i' from each id of the lists beside it to lists of [id, ...]"
        ) from error


def cxc_recalls(top: Top, annotations: CxcAnnotations) -> dict[str, dict[str, float]]:
    """R@1, R@5 and R@10 on CxC in percent, from the first ten items of every ranking.

    Args:
        top: of `top_ranked`, at least ten deep both ways, in the order of the annotations.
        annotations: of `read_cxc`.
    """
    forth = _recalls("images", top.image_to_text, annotations.image_to_text)
    back = _recalls("captions", top.text_to_image, annotations.text_to_image)
    return {name: {"i2t": forth[name], "t2i": back[name]} for name in forth}


def _recalls(
    what: str, ranked: NDArray[np.int64], matches: Sequence[frozenset[int]]
) -> dict[str, float]:
    if len(ranked) != len(matches):
        raise InputError(
            f"rankings of {len(ranked)} {what} and annotations of {len(matches)}; "
            "encode the collection in the order of the annotations"
        )
    first = np.full(len(ranked), np.iinfo(np.int64).max)
    for query, (items, right) in enumerate(zip(ranked.tolist(), matches, strict=True)):
        hits = (place for place, item in enumerate(items, start=1) if item in right)
        first[query] = next(hits, first[query])
    return {f"cxc_r{level}": 100 * float((first <= level).mean()) for level in LEVELS}


def _matches(
    annotated: Mapping[str, Any], queries: Sequence[str], items: Sequence[str]
) -> tuple[frozenset[int], ...]:
    places = {item: place for place, item in enumerate(items)}
    return tuple(
        frozenset(places[str(match[0])] for match in annotated[query] if str(match[0]) in places)
        for query in queries
    )


def _lines(file: Path) -> list[str]:
    try:
        lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read ({error}); it holds one id a line") from error
    found = [line for line in lines if line]
    if not found:
        raise DataError(f"{file} is empty; it holds one id a line")
    return found
