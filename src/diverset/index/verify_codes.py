"""Checks of the numbers in an index: elements of unit length, and bounds that hold."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Bool, Float

from diverset.errors import a_few
from diverset.index.item_database import ItemDatabase
from diverset.index.quantized_codes import Codes, spread
from diverset.index.segments import Segment
from diverset.similarity import UNIT_TOLERANCE


def invalid_sets(database: ItemDatabase) -> list[str]:
    """Sets whose elements are not unit length."""
    invalid: list[int] = []
    for rows, sets in database.sets():
        norms = np.linalg.norm(sets, axis=2)
        invalid += rows[~(np.abs(norms - 1) <= UNIT_TOLERANCE).all(axis=1)].tolist()
    return [f"rows {a_few(invalid)} have elements that are not unit length"] if invalid else []


def invalid_codes(database: ItemDatabase, segment: Segment, codes: Codes) -> list[str]:
    """Rows that only the database or only the segment has, or whose bounds do not hold."""
    in_segment = codes.rows.numpy()
    missing: list[int] = []
    wrong: list[int] = []
    known = [database.removed()]
    for rows, sets in database.sets(segment.first, segment.last):
        known.append(rows)
        present = np.isin(rows, in_segment)
        missing += rows[~present].tolist()
        part = codes.take(torch.from_numpy(np.searchsorted(in_segment, rows[present])))
        exact = torch.from_numpy(sets[present]).double()
        valid = bounds_hold(part, exact, database.settings.alpha)
        wrong += rows[present][~valid.numpy()].tolist()
    stale = np.setdiff1d(in_segment, np.concatenate(known)).tolist()
    return [
        f"{problem} {a_few(rows)}"
        for rows, problem in (
            (missing, "lacks rows"),
            (wrong, "has wrong sets or bounds of rows"),
            (stale, "has deleted rows"),
        )
        if rows
    ]


def bounds_hold(
    codes: Codes, sets: Float[torch.Tensor, "items elements dim"], alpha: float
) -> Bool[torch.Tensor, " items"]:
    """Whether codes contain these sets, and their errors, radii and spreads are large enough."""
    elements = codes.elements.transpose(0, 1).double() * codes.scale.double()[:, None, None]
    error = (sets - elements).norm(dim=2).amax(dim=1)
    center = codes.means.double() * codes.mean_scale.double()[:, None]
    offsets = sets - center[:, None]
    norms = offsets.norm(dim=2)
    radius = (norms.amax(dim=1) + norms.mean(dim=1)) / 2
    tolerance = 2.0**-22 * (1 + math.log(codes.sets.shape[1]) / alpha)
    bounded: torch.Tensor
    bounded = (error <= codes.error + tolerance) & (radius <= codes.radius + tolerance)
    bounded &= spread(offsets, alpha) <= codes.spread + tolerance
    return bounded & (codes.sets.double() == sets).all(dim=2).all(dim=1)
