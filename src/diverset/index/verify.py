"""Checking an index from the ground: the file, every set, and every bound in the scan files.

A scan file is not compared with what would be written now: its codes are held against the sets in
float64, so that what the search relies on is what is checked.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Bool, Float

from diverset.errors import a_few
from diverset.index.codes import Codes
from diverset.index.segments import Segment, read
from diverset.index.truth import Truth
from diverset.index.upkeep import ALL, TAIL, listed
from diverset.similarity import UNIT_TOLERANCE


def problems(truth: Truth) -> list[str]:
    """What is wrong, in words; nothing if all is well."""
    select = truth.connection.execute
    found = [f"SQLite: {line}" for (line,) in select("PRAGMA integrity_check") if line != "ok"]
    if found:
        return found
    for one, other in (("items", "sets"), ("sets", "items")):
        missing = select(f"SELECT row FROM {one} WHERE row NOT IN (SELECT row FROM {other})")
        if rows := [row for (row,) in missing]:
            found.append(f"rows {a_few(rows)} are in {one} and not in {other}")
    found += _bad_sets(truth)
    uncovered = select(
        "SELECT row FROM sets WHERE row <= (SELECT max(last) FROM segments) AND NOT EXISTS "
        "(SELECT 1 FROM segments WHERE sets.row BETWEEN first AND last)"
    )
    if rows := [row for (row,) in uncovered]:
        found.append(f"rows {a_few(rows)} are in no scan file; compact the index")
    for segment in listed(truth):
        codes = read(truth.folder, segment, truth.settings)
        if codes is None:
            found.append(f"{segment.file} is missing or damaged; the next search writes it anew")
        else:
            found += [f"{segment.file}: {line}" for line in _bad_codes(truth, segment, codes)]
    return found


def _bad_sets(truth: Truth) -> list[str]:
    bad: list[int] = []
    first = 0
    while True:
        rows, sets = truth.sets(first, ALL, TAIL)
        if not len(rows):
            return [f"rows {a_few(bad)} hold elements not of unit length"] if bad else []
        lengths = np.linalg.norm(sets, axis=2)
        bad += rows[~(np.abs(lengths - 1) <= UNIT_TOLERANCE).all(axis=1)].tolist()
        first = int(rows[-1]) + 1


def _bad_codes(truth: Truth, segment: Segment, codes: Codes) -> list[str]:
    """Rows that only the truth or only the segment has, or whose bounds do not hold."""
    held = codes.rows.numpy()
    missing: list[int] = []
    wrong: list[int] = []
    known = [truth.removed()]
    first = segment.first
    while True:
        rows, sets = truth.sets(first, segment.last, TAIL)
        if not len(rows):
            break
        known.append(rows)
        there = np.isin(rows, held)
        missing += rows[~there].tolist()
        some = codes.take(torch.from_numpy(np.searchsorted(held, rows[there])))
        good = holds(some, torch.from_numpy(sets[there]).double(), truth.settings.alpha)
        wrong += rows[there][~good.numpy()].tolist()
        first = int(rows[-1]) + 1
    stale = np.setdiff1d(held, np.concatenate(known)).tolist()
    return [
        f"rows {a_few(some)} {what}; delete the file, and the next search writes it anew"
        for some, what in (
            (missing, "are missing"),
            (wrong, "have wrong sets or bounds"),
            (stale, "are no longer in the index"),
        )
        if some
    ]


def holds(
    codes: Codes, sets: Float[torch.Tensor, "items slots dim"], alpha: float
) -> Bool[torch.Tensor, " items"]:
    """Whether the sets are those of the truth, and errors and spreads as large as they must be."""
    elements = codes.elements.transpose(0, 1).double() * codes.scale.double()[:, None, None]
    error = (sets - elements).norm(dim=2).amax(dim=1)
    center = codes.means.double() * codes.mean_scale.double()[:, None]
    radius = (sets - center[:, None]).norm(dim=2)
    spread = (torch.logsumexp(alpha * radius, dim=1) / alpha + radius.mean(dim=1)) / 2
    tiny = 2.0**-22 * (1 + math.log(codes.sets.shape[1]) / alpha)
    bounded: torch.Tensor = (error <= codes.error + tiny) & (spread <= codes.spread + tiny)
    return bounded & (codes.sets.double() == sets).all(dim=2).all(dim=1)
