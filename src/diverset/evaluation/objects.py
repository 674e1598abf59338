"""Object names as queries: which images show a dog, a car, a cell phone?

People search with one or two words, captions have ten. Here every object name is a query and every
image labelled with that object is relevant. Reported are mean average precision (mAP) and the
precision of the ten best hits, averaged over objects.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from diverset.errors import DataError, ShapeError

TOP = 10


class ObjectScores(NamedTuple):
    """Means over all object names, in [0, 1]."""

    mean_average_precision: float
    precision_at_10: float


def read_labels(file: str | PathLike[str]) -> dict[str, frozenset[str]]:
    """Read lines of `image id <tab> object, object, ...`, plain or gzipped.

    Leading zeros of numeric ids are dropped, so that COCO's file names and ids agree.
    """
    path = Path(file)
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read labels from {path} ({error}); give a TSV file") from error
    labels: dict[str, frozenset[str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        image_id, tab, names = line.partition("\t")
        if not tab:
            raise DataError(f"line {number} of {path} has no tab; give `id<tab>object, object`")
        labels[label_id(image_id)] = frozenset(filter(None, map(str.strip, names.split(","))))
    return labels


def label_id(image_id: str) -> str:
    """The id of an image as labels use it.

    >>> label_id("000000000025"), label_id("1000268201_693b08cb0e")
    ('25', '1000268201_693b08cb0e')
    """
    return image_id.lstrip("0") or "0" if image_id.isdigit() else image_id


def relevance(
    image_ids: Sequence[str], labels: Mapping[str, frozenset[str]]
) -> tuple[list[str], Bool[NDArray[np.bool_], "objects images"], NDArray[np.int64]]:
    """Object names, which labelled images show them, and the indices of the labelled images.

    Names that no image of the collection shows are left out.
    """
    labelled = np.array(
        [index for index, name in enumerate(image_ids) if label_id(name) in labels], dtype=np.int64
    )
    if not len(labelled):
        raise DataError("no image of this split has labels; check that their ids agree")
    shown = [labels[label_id(image_ids[index])] for index in labelled]
    names = sorted(frozenset().union(*shown))
    return names, np.array([[name in objects for objects in shown] for name in names]), labelled


def score_objects(
    scores: Float[NDArray[np.floating[Any]], "objects images"],
    relevant: Bool[NDArray[np.bool_], "objects images"],
) -> ObjectScores:
    """Mean average precision and mean precision at 10 of object names, one per row.

    >>> scores, relevant = np.array([[0.9, 0.5, 0.7]]), np.array([[True, True, False]])
    >>> round(score_objects(scores, relevant).mean_average_precision, 4)
    0.8333
    """
    if scores.shape != relevant.shape:
        raise ShapeError(
            f"scores {scores.shape} and relevance {relevant.shape} differ; give one row per name "
            "and one column per image"
        )
    average_precisions, precisions = [], []
    for row, is_relevant in zip(scores, relevant, strict=True):
        hits = is_relevant[np.argsort(-row, kind="stable")]
        ranks = np.flatnonzero(hits) + 1
        average_precisions.append((np.arange(1, len(ranks) + 1) / ranks).mean())
        precisions.append(hits[:TOP].mean())
    return ObjectScores(float(np.mean(average_precisions)), float(np.mean(precisions)))
