"""Annotated matches, restricted to the available part of a collection.

ECCV Caption and CxC annotate COCO's 5,000 test images. If some of these images are missing, matches
are restricted to the available images and captions; a query that loses all its matches is skipped.
On the whole collection nothing changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from typing import TypeVar

import torch

from diverset.errors import DataError, a_few
from diverset.evaluation.ensemble import Member

Id = TypeVar("Id", int, str)


def restrict(
    matches: Mapping[Id, Iterable[Id]], queries: Collection[Id], missing: Collection[Id]
) -> dict[Id, frozenset[Id]]:
    """The matches of `queries` without the `missing` items; queries that lose all are skipped.

    >>> matches = {"a": ["x", "y"], "b": ["y"], "c": ["x"], "d": []}
    >>> restrict(matches, queries=["a", "b", "d"], missing=["y"]) == {"a": {"x"}, "d": set()}
    True
    """
    there, gone = set(queries), set(missing)
    all_matches = {query: frozenset(matches[query]) for query in matches if query in there}
    restricted = {
        query: matching - gone
        for query, matching in all_matches.items()
        if matching - gone or not matching
    }
    if not restricted:
        raise DataError(
            f"none of {len(queries)} queries has a match, {len(missing)} items are missing; "
            "evaluate more of COCO's Karpathy test split"
        )
    return restricted


def check_images(ids: Sequence[Id], annotated: Collection[Id]) -> None:
    """Raise unless all images are annotated."""
    unknown = [id_ for id_ in ids if id_ not in annotated]
    if unknown:
        raise DataError(
            f"{len(unknown)} of {len(ids)} images are not annotated ({a_few(unknown)}); evaluate "
            "COCO's Karpathy test split, or a part of it"
        )


def annotated_captions(
    members: Sequence[Member], ids: Sequence[Id], annotated: Collection[Id]
) -> tuple[Sequence[Member], list[Id]]:
    """The annotated captions; ten of COCO's test images have a sixth one that is not."""
    rows = [row for row, id_ in enumerate(ids) if id_ in annotated]
    if not rows:
        raise DataError(
            f"no caption is annotated; the ids begin with {a_few(ids)}, give those of "
            "dataset_coco.json or captions_val2014.json"
        )
    if len(rows) == len(ids):
        return members, list(ids)
    subsets = [member.subset(slice(None), torch.tensor(rows)) for member in members]
    return subsets, [ids[row] for row in rows]


def share(part: Sized, whole: Sized) -> str:
    """How much of a collection is available.

    >>> share(range(4407), range(5000))
    '4,407 of 5,000'
    """
    return f"{len(part):,} of {len(whole):,}"
