"""What every store checks before it stores or searches: shapes, numbers, ids, metadata.

The checks return what they were given as plain lists and float32 arrays, so that a store goes on
with one kind of thing. They know nothing of any store.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diverset.errors import InputError, OptionError, ShapeError, a_few
from diverset.index.base import Metadata, Records, Settings
from diverset.index.where import check_metadata, check_text
from diverset.similarity import UNIT_TOLERANCE

LONGEST_ID = 1000  # characters; a path fits, a text pasted by mistake does not


def check_items(
    settings: Settings, ids: Sequence[str], sets: Any, metadata: Sequence[Metadata] | None = None
) -> Records:
    """Items that may be stored, or an error that names the first one that may not."""
    array = check_sets("sets", sets, settings.dim)
    if array.shape[1] != settings.slots:
        raise ShapeError(
            f"sets have {array.shape[1]} elements each, the index holds sets of {settings.slots}; "
            "encode with the model that the index was made for"
        )
    names = check_ids(ids)
    fields = [{}] * len(names) if metadata is None else [_plain(one) for one in metadata]
    for what, found in (("sets", len(array)), ("metadata", len(fields))):
        if found != len(names):
            raise ShapeError(f"there are {len(names)} ids and {found} {what}; give one an id")
    for one in fields:
        check_metadata(one)
    return Records(names, array, fields)


def _plain(metadata: Metadata) -> Metadata:
    """With numbers of numpy as those of Python, which every database takes."""
    return {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in metadata.items()
    }


def check_queries(settings: Settings, queries: Any) -> NDArray[np.float32]:
    """Query sets of any number of elements, as wide as those of the index."""
    return check_sets("queries", queries, settings.dim)


def check_sets(name: str, sets: Any, dim: int) -> NDArray[np.float32]:
    """Sets as a float32 array (items, elements, dim) of unit elements.

    >>> check_sets("sets", np.full((1, 2, 4), 0.5), dim=4).dtype
    dtype('float32')
    """
    array = np.asarray(sets)
    if array.ndim != 3 or 0 in array.shape[1:]:
        raise ShapeError(
            f"{name} has shape {array.shape}; a batch of sets is (items, elements, dim)"
        )
    if array.dtype.kind != "f":
        raise InputError(f"{name} holds {array.dtype}; embedding sets are floating point")
    if array.shape[2] != dim:
        raise ShapeError(f"{name} are {array.shape[2]} wide, the index holds {dim}; use one model")
    # Copied: torch wants memory it could write to, and nobody may change it meanwhile.
    array = np.array(array, dtype=np.float32, order="C")
    norms = np.sqrt(np.einsum("nsd,nsd->ns", array, array))
    good = np.abs(norms - 1) <= UNIT_TOLERANCE  # False for NaN as well
    if not good.all():
        item, element = np.argwhere(~good)[0]
        raise InputError(
            f"element {element} of {name}[{item}] has norm {norms[item, element]:.4g}, not 1; "
            "normalise the elements, and look for NaN where the norm is nan"
        )
    return array


def check_ids(ids: Sequence[str]) -> list[str]:
    """Ids as a list: text, none of it twice.

    >>> check_ids(["a", "b", "a"])
    Traceback (most recent call last):
    ...
    diverset.errors.InputError: 'a' stands twice in one batch of ids; give each item once
    """
    if isinstance(ids, str):
        raise InputError(f"ids is one string, {ids!r}; give a list of strings")
    seen: set[str] = set()
    for one in ids:
        if not isinstance(one, str) or not 0 < len(one) <= LONGEST_ID:
            raise InputError(
                f"id {a_few([one])[:80]} cannot be stored; give text of 1 to {LONGEST_ID} "
                "characters"
            )
        check_text("an id", one)
        if one in seen:
            raise InputError(f"{one!r} stands twice in one batch of ids; give each item once")
        seen.add(one)
    return list(ids)


def wanted_ids(ids: Sequence[str]) -> list[str]:
    """Ids to look for, each once; what no store can hold is not there.

    >>> wanted_ids(["a", "b", "a"])
    ['a', 'b']
    """
    if isinstance(ids, str):
        raise InputError(f"ids is one string, {ids!r}; give a list of strings")
    return [one for one in dict.fromkeys(ids) if isinstance(one, str) and is_storable(one)]


def check_k(k: int) -> int:
    """How many hits are wanted.

    >>> check_k(np.int64(3))
    3
    """
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 1:
        raise OptionError(f"k is {k!r}; give a whole number from 1 on")
    return int(k)


def is_storable(text: str) -> bool:
    """Whether every database can hold a text: no NUL, and it can be written as UTF-8."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
