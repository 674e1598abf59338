"""What an index accepts: every refusal names the value and the next step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from diverset.errors import InputError, OptionError, ShapeError, a_few
from diverset.index.base import Metadata, Sets, Settings
from diverset.index.where import check_metadata, check_text
from diverset.similarity import UNIT_TOLERANCE


def checked_items(
    settings: Settings, ids: Sequence[str], sets: Sets, metadata: Sequence[Metadata] | None
) -> tuple[list[str], Sets, Sequence[Metadata]]:
    """Items in the shape and precision in which they are stored."""
    names, metadata = checked_ids(ids), [{}] * len(ids) if metadata is None else metadata
    double = [name for name, times in Counter(names).items() if times > 1]
    if double:
        raise InputError(f"ids {a_few(double)} come twice in one batch; keep one of each")
    sets = _checked_sets("sets", sets, settings.dim)
    if sets.shape[1] != settings.slots:
        raise ShapeError(
            f"sets have {sets.shape[1]} elements, this index holds sets of {settings.slots}; "
            "encode with its model, or create another index"
        )
    for what, length in (("sets", len(sets)), ("metadata", len(metadata))):
        if length != len(names):
            raise ShapeError(f"{len(names)} ids come with {length} {what}; give one for each")
    for one in metadata:
        check_metadata(one)
    return names, sets, metadata


def checked_ids(ids: Sequence[str]) -> list[str]:
    """Ids that can be stored."""
    if isinstance(ids, str):
        raise InputError(f"ids is the text {ids!r}; give a list of ids")
    for one in ids:
        if not isinstance(one, str) or not one:
            raise InputError(f"id {one!r} is no text; ids are non-empty strings")
        check_text("an id", one)
    return list(ids)


def checked_queries(settings: Settings, queries: Sets, k: int) -> Sets:
    """Query sets; they may have another number of elements than the stored ones."""
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise OptionError(f"k is {k!r}; ask for at least 1")
    return _checked_sets("queries", queries, settings.dim)


def _checked_sets(name: str, sets: Sets, dim: int) -> Sets:
    sets = np.asarray(sets)
    if sets.ndim != 3 or sets.shape[1] == 0:
        raise ShapeError(f"{name} has shape {sets.shape}; give (items, elements, dim)")
    if sets.shape[2] != dim:
        raise ShapeError(
            f"{name} are {sets.shape[2]} wide, this index holds elements of width {dim}; "
            "encode with its model, or create another index"
        )
    if sets.dtype.kind != "f":
        raise InputError(f"{name} hold {sets.dtype}; embedding sets are floating point")
    # Copied: torch wants memory it could write to, and nobody may change it meanwhile.
    sets = np.array(sets, dtype=np.float32, order="C")
    norms = np.linalg.norm(sets, axis=2)
    bad = np.argwhere(~(np.abs(norms - 1) <= UNIT_TOLERANCE))  # NaN as well
    if len(bad):
        item, element = bad[0]
        raise InputError(
            f"element {element} of {name}[{item}] has norm {norms[item, element]:.4g}, not 1; "
            "divide elements by their norms, and look for NaN where the norm is nan"
        )
    return sets
