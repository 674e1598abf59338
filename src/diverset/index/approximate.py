"""Approximate search: candidates from HNSW graphs of faiss.

One graph contains the means of all sets; a second one contains their elements, where means are not
enough. Graphs are files built from one state of the index: items added later are scanned, items
removed later are dropped. `diverset.index.tune` chooses the parameters.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from diverset.errors import DamagedError, IndexFileError, OptionError, import_extra
from diverset.index.database_errors import StaleReadError
from diverset.index.item_database import ItemDatabase
from diverset.index.scan import Scan
from diverset.index.schema import read_properties, write_property
from diverset.index.scoring import Candidates
from diverset.index.set_store import Sets
from diverset.runtime.checksums import file_checksum
from diverset.runtime.files import delete_unused, replace_durably

SUFFIX = ".graph"
# Parameters M and efConstruction. With efConstruction 64, some searches end far from all hits.
NEIGHBORS, EF_CONSTRUCTION = 24, 128
TRAINING_VECTORS = 50_000  # from which the 8-bit range of a graph is estimated
BATCH = 8192  # items added at once


@dataclass(frozen=True)
class Plan:
    """Parameters of approximate search, and its measured recall.

    Attributes:
        means: file of the graph over means.
        elements: file of the graph over elements; None if means are enough.
        last: the last row number in the graphs.
        candidates: per query vector and graph.
        ef_search: nodes that a graph visits for them.
        k, recall, queries: the measured recall at k, and the number of queries.
    """

    means: str
    elements: str | None = None
    last: int = 0
    candidates: int = 0
    ef_search: int = 0
    k: int = 10
    recall: float = 0.0
    queries: int = 0

    @property
    def files(self) -> list[str]:
        return [self.means] if self.elements is None else [self.means, self.elements]


def load_faiss() -> Any:
    """Import faiss so that its idle threads sleep.

    It brings its own OpenMP runtime; threads that wait actively would take cores from torch.
    """
    before = os.environ.get("OMP_WAIT_POLICY")
    os.environ["OMP_WAIT_POLICY"] = before or "PASSIVE"  # read when the library is loaded
    try:
        return import_extra("faiss", "index")
    finally:
        if before is None:
            del os.environ["OMP_WAIT_POLICY"]


class Graphs:
    """The opened graphs of a plan."""

    def __init__(self, folder: Path, plan: Plan, previous: Graphs | None = None) -> None:
        self.plan = plan
        self.faiss = load_faiss()
        opened = previous.opened if previous else {}  # graph files never change
        self.opened: dict[str, Any] = {
            name: opened.get(name) or self._read(folder / name) for name in plan.files
        }
        self.means = self.opened[plan.means]
        self.elements = None if plan.elements is None else self.opened[plan.elements]

    def _read(self, file: Path) -> Any:
        try:
            if is_intact(file):
                return self.faiss.read_index(os.fspath(file))
            cause = None
        except (RuntimeError, OSError) as error:
            cause = error
        # A missing file may have been replaced by another process that tuned the index.
        error_type = DamagedError if file.exists() else StaleReadError
        raise error_type(
            f"{file} is missing or damaged; run diverset store tune again, or search with "
            "exact=True"
        ) from cause

    def candidates(self, scan: Scan, queries: Sets, k: int) -> Candidates:
        """Distinct positions of candidates; -1 pads shorter rows."""
        count = max(self.plan.candidates, k)
        rows = self._nearest(self.means, queries.mean(axis=1), count)
        if self.elements is not None:
            near = self._nearest(self.elements, queries.reshape(-1, queries.shape[2]), count)
            both = np.concatenate([rows, near.reshape(len(queries), -1)], axis=1)
            positions = _positions(scan, np.sort(both, axis=1), duplicates=True)
        else:
            positions = _positions(scan, rows)
        if scan.rows[-1] <= self.plan.last:
            return positions
        first = int(np.searchsorted(scan.rows, self.plan.last, side="right"))
        new = scan.search(queries, k, np.arange(first, len(scan)))  # not in the graphs
        new.positions[np.arange(new.positions.shape[1]) >= new.counts[:, None]] = -1
        return np.concatenate([positions, new.positions], axis=1)

    def _nearest(
        self, graph: Any, vectors: Float[np.ndarray, "vectors dim"], count: int
    ) -> Int64[np.ndarray, "vectors count"]:
        params = self.faiss.SearchParametersHNSW(efSearch=max(self.plan.ef_search, count))
        rows: Int64[np.ndarray, "vectors count"]
        rows = graph.search(np.ascontiguousarray(vectors), count, params=params)[1]
        return rows


def _positions(
    scan: Scan, rows: Int64[np.ndarray, "queries candidates"], duplicates: bool = False
) -> Candidates:
    """Row numbers as positions; -1 for removed items and for duplicates in sorted rows."""
    positions: Candidates
    if scan.rows[-1] - scan.rows[0] == len(scan) - 1:  # consecutive: no search needed
        positions = rows - scan.rows[0]
        invalid = (positions < 0) | (positions >= len(scan))
    else:
        positions = np.searchsorted(scan.rows, rows).clip(max=len(scan) - 1)
        invalid = scan.rows[positions] != rows
    if duplicates:
        invalid[:, 1:] |= rows[:, 1:] == rows[:, :-1]
    if len(scan.removed):
        invalid |= np.isin(positions, scan.removed)
    positions[invalid] = -1
    return positions


def is_intact(file: Path) -> bool:
    """Whether a graph has the checksum that its name ends with."""
    return file.stem.rpartition("-")[2] == f"{file_checksum(file):08x}"


def build_graph(database: ItemDatabase, scan: Scan, elements: bool) -> str:
    """Build a graph over the means or the elements of all sets; returns its file name."""
    faiss = load_faiss()
    kind = faiss.ScalarQuantizer.QT_8bit_uniform  # dimensions of unit vectors have similar ranges
    graph = faiss.IndexHNSWSQ(database.settings.dim, kind, NEIGHBORS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = EF_CONSTRUCTION
    step = max(1, len(scan) // TRAINING_VECTORS)
    sample = torch.cat([_vectors(part.sets[::step], elements) for part in scan.parts])
    graph.train(sample.numpy())
    with_rows = faiss.IndexIDMap(graph)
    for rows, sets in _batches(scan):
        vectors = _vectors(sets, elements)
        with_rows.add_with_ids(
            vectors.numpy(), np.repeat(rows, sets.shape[1]) if elements else rows
        )
    name = f"{'elements' if elements else 'means'}-{uuid.uuid4().hex[:8]}"
    temporary = database.folder / f"{name}{SUFFIX}.part"
    faiss.write_index(with_rows, os.fspath(temporary))
    try:
        name = f"{name}-{file_checksum(temporary):08x}{SUFFIX}"
        replace_durably(temporary, database.folder / name)
    except FileNotFoundError as error:
        raise _tuned_concurrently(database) from error
    return name


def _vectors(sets: Tensor, elements: bool) -> Tensor:
    return sets.flatten(0, 1) if elements else sets.mean(dim=1)


def _batches(scan: Scan) -> Iterator[tuple[Int64[np.ndarray, " items"], Tensor]]:
    removed = scan.rows[scan.removed]
    for part in scan.parts:
        for start in range(0, len(part), BATCH):
            rows = part.rows[start : start + BATCH].numpy()
            current = ~np.isin(rows, removed)
            yield rows[current], part.sets[start : start + BATCH][torch.from_numpy(current)]


def build_plans(database: ItemDatabase, scan: Scan) -> Iterator[Plan]:
    """Plans with their graphs, cheapest first; a graph is built when its plan is requested."""
    plan = Plan(build_graph(database, scan, elements=False), last=int(scan.rows[-1]))
    yield plan
    yield replace(plan, elements=build_graph(database, scan, elements=True))


def save_plan(database: ItemDatabase, plan: Plan) -> None:
    """Make a plan the current one, and delete the graphs of others."""
    with database.writing() as connection:  # no other process deletes graphs meanwhile
        if not all((database.folder / name).exists() for name in plan.files):
            raise _tuned_concurrently(database)
        write_property(connection, "plan", asdict(plan))
    with database.writing():  # separate: the old graphs are needed until the new plan is on disk
        current = require_plan(database).files
        for file in database.folder.glob(f"*{SUFFIX}*"):
            if file.name not in current:
                delete_unused(file)


def _tuned_concurrently(database: ItemDatabase) -> IndexFileError:
    return IndexFileError(
        f"{database.folder} was tuned by another process at the same time, and that plan is used; "
        "tune again for a different one"
    )


def read_plan(database: ItemDatabase) -> Plan | None:
    """The current plan; None before tuning."""
    plan = read_properties(database.connection, database.folder).get("plan")
    return Plan(**plan) if plan else None


def require_plan(database: ItemDatabase) -> Plan:
    plan = read_plan(database)
    if plan is None:
        raise OptionError(
            f"{database.folder} is not tuned for exact=False; "
            f"run diverset store tune {database.folder}"
        )
    return plan
