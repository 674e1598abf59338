"""Checks of everything that is stored or searched: shapes, numbers, ids and metadata.

They return plain lists and float32 arrays, whatever they were given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diverset.errors import InputError, ShapeError, a_few, check_count
from diverset.index.filter_language import check_metadata, check_text, is_storable
from diverset.index.set_store import IndexSettings, Metadata, Records
from diverset.similarity import UNIT_TOLERANCE, check_set_shape, check_unit_length

SHORTEST, LONGEST = (1 - UNIT_TOLERANCE) ** 2, (1 + UNIT_TOLERANCE) ** 2  # of squared norms
MAX_ID_LENGTH = 1000  # characters: a path fits, a text pasted by mistake does not


def check_items(
    settings: IndexSettings,
    ids: Sequence[str],
    sets: Any,
    metadata: Sequence[Metadata] | None = None,
) -> Records:
    """Items ready to be stored; raises an error that names the first invalid one."""
    array = check_sets("sets", sets, settings.dim)
    if array.shape[1] != settings.elements:
        raise ShapeError(
            f"the sets have {array.shape[1]} elements, the index stores {settings.elements}; "
            "encode with the model that the index was created for"
        )
    names = check_ids(ids)
    fields = [{}] * len(names) if metadata is None else [_to_python(item) for item in metadata]
    for what, count in (("sets", len(array)), ("metadata", len(fields))):
        if count != len(names):
            raise ShapeError(f"there are {len(names)} ids and {count} {what}; give one per id")
    for item in fields:
        check_metadata(item)
    return Records(names, array, fields)


def _to_python(metadata: Metadata) -> Metadata:
    """Numpy scalars as Python values, which every database accepts."""
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in metadata.items()
    }


def check_queries(
    settings: IndexSettings, queries: Any, k: object
) -> tuple[NDArray[np.float32], int]:
    """Query sets of any number of elements and of the index's dimension, and the number of hits."""
    return check_sets("queries", queries, settings.dim), check_count("k", k)


def check_sets(name: str, sets: Any, dim: int) -> NDArray[np.float32]:
    """Sets as a float32 array (items, elements, dim) of unit elements.

    >>> check_sets("sets", np.full((1, 2, 4), 0.5), dim=4).dtype
    dtype('float32')
    """
    array = np.asarray(sets)
    if array.dtype.kind != "f":
        raise InputError(f"{name} holds {array.dtype}; embedding sets are floating point")
    # A copy: torch needs writable memory, and the caller may change the array meanwhile.
    array = np.array(array, dtype=np.float32, order="C")
    if array.ndim == 3 and array.size and array.shape[2] == dim:
        squares = np.einsum("nsd,nsd->ns", array, array)  # faster than torch for a few sets
        if squares.min() >= SHORTEST and squares.max() <= LONGEST:  # False for NaN
            return array
    tensor = torch.from_numpy(array)
    check_set_shape(name, tensor)
    if array.shape[2] != dim:
        raise ShapeError(
            f"{name} has dimension {array.shape[2]}, the index {dim}; use the model of the index"
        )
    check_unit_length(name, tensor)
    return array


def check_ids(ids: Sequence[str]) -> list[str]:
    """Ids as a list of distinct texts.

    >>> check_ids(["a", "b", "a"])
    Traceback (most recent call last):
    ...
    diverset.errors.InputError: duplicate id 'a' in the batch; give each item once
    """
    _reject_string(ids)
    seen: set[str] = set()
    for item in ids:
        if not isinstance(item, str) or not 0 < len(item) <= MAX_ID_LENGTH:
            raise InputError(
                f"id {a_few([item])[:80]} cannot be stored; give text of 1 to {MAX_ID_LENGTH} "
                "characters"
            )
        check_text("an id", item)
        if item in seen:
            raise InputError(f"duplicate id {item!r} in the batch; give each item once")
        seen.add(item)
    return list(ids)


def storable_ids(ids: Sequence[str]) -> list[str]:
    """Distinct ids to look up, without those that no store can contain.

    >>> storable_ids(["a", "b", "a"])
    ['a', 'b']
    """
    _reject_string(ids)
    return [item for item in dict.fromkeys(ids) if isinstance(item, str) and is_storable(item)]


def _reject_string(ids: Sequence[str]) -> None:
    if isinstance(ids, str):
        raise InputError(f"ids is the string {ids!r}; give a list of strings")
