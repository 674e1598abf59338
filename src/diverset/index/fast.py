"""Candidates from graphs (HNSW of faiss), for collections that are too large to scan.

One graph joins the means of all items; a second one joins their elements, where means tell too
little. Graphs are files made from the truth at one moment: items added later are scanned, items
removed later are dropped. It does not know exact scores, nor how a plan was found (`tune`).
"""

from __future__ import annotations

import json
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

from diverset.data.files import replace_durably
from diverset.errors import IndexFileError, OptionError, import_extra
from diverset.index.base import Sets
from diverset.index.codes import encode_queries
from diverset.index.scan import Candidates, Scan, padded
from diverset.index.truth import Outdated, Truth

ENDING = ".graph"
# Of a node, and when it is built. With an effort of 64, some searches end far from all hits.
LINKS, EFFORT = 24, 128
SAMPLE = 50_000  # vectors that the 8-bit ranges of a graph are learned from
PORTION = 8192  # items at once


@dataclass(frozen=True)
class Plan:
    """How candidates are found, and what that was measured to give.

    Attributes:
        means, elements: files of the graphs; no elements if means are enough.
        last: the last row number that they hold.
        candidates: that each graph gives for a query vector.
        effort: nodes it looks at for them (efSearch).
        k, recall, queries: the measured recall at k, and over how many queries.
    """

    means: str
    elements: str = ""
    last: int = 0
    candidates: int = 0
    effort: int = 0
    k: int = 10
    recall: float = 0.0
    queries: int = 0


def load_faiss() -> Any:
    """Import faiss, whose idle threads are to sleep: it brings an OpenMP of its own, and threads
    that wait awake would take the cores from torch's."""
    before = os.environ.get("OMP_WAIT_POLICY")
    os.environ["OMP_WAIT_POLICY"] = before or "PASSIVE"  # read when its library is loaded
    try:
        return import_extra("faiss", "index")
    finally:
        if before is None:
            del os.environ["OMP_WAIT_POLICY"]


class Graphs:
    """The graphs of a plan, opened."""

    def __init__(self, folder: Path, plan: Plan, other: Graphs | None = None) -> None:
        self.plan, self.folder = plan, folder
        self.faiss = load_faiss()
        self._read: dict[str, Any] = dict(other._read) if other else {}  # files never change
        self.means = self._open(plan.means)
        self.elements = self._open(plan.elements) if plan.elements else None
        self._read = {name: self._read[name] for name in _files(plan)}

    def _open(self, name: str) -> Any:
        file = self.folder / name
        if name not in self._read:
            self._read[name] = self._load(file)
        return self._read[name]

    def _load(self, file: Path) -> Any:
        try:
            return self.faiss.read_index(os.fspath(file))
        except RuntimeError as error:
            kind = IndexFileError if file.exists() else Outdated  # perhaps tuned anew meanwhile
            raise kind(
                f"{file} is missing or damaged; run diverset index tune again, or search exactly"
            ) from error

    def candidates(self, scan: Scan, queries: Sets, k: int) -> Candidates:
        """Positions of candidates, each once; -1 where there are fewer."""
        most = max(self.plan.candidates, k)
        found = [self._nearest(self.means, queries.mean(axis=1), most)]
        if self.elements is not None:
            rows = self._nearest(self.elements, queries.reshape(-1, queries.shape[2]), most)
            found.append(rows.reshape(len(queries), -1))
        if len(found) == 1:
            places = _places(scan, found[0])
        else:
            places = _places(scan, np.sort(np.concatenate(found, axis=1), axis=1), twice=True)
        if scan.rows[-1] <= self.plan.last:
            return places
        first = int(np.searchsorted(scan.rows, self.plan.last, side="right"))
        late = torch.arange(first, len(scan))  # not in the graphs yet
        late = late[~torch.isin(late, scan.removed)]
        narrowed = (scan.narrow(query, late, k) for query in encode_queries(queries))
        return np.concatenate([places, padded(narrowed)], axis=1)

    def _nearest(
        self, graph: Any, vectors: Float[np.ndarray, "vectors dim"], most: int
    ) -> Int64[np.ndarray, "vectors most"]:
        effort = self.faiss.SearchParametersHNSW(efSearch=max(self.plan.effort, most))
        rows: Int64[np.ndarray, "vectors most"]
        rows = graph.search(np.ascontiguousarray(vectors), most, params=effort)[1]
        return rows


def _places(
    scan: Scan, rows: Int64[np.ndarray, "queries found"], twice: bool = False
) -> Candidates:
    """Row numbers as positions; -1 for what is no longer there, or comes twice in a sorted line."""
    places: Candidates
    if scan.rows[-1] - scan.rows[0] == len(scan) - 1:  # no gaps to look for
        places = rows - scan.rows[0]
        wrong = (places < 0) | (places >= len(scan))
    else:
        places = np.searchsorted(scan.rows, rows).clip(max=len(scan) - 1)
        wrong = scan.rows[places] != rows
    if twice:
        wrong[:, 1:] |= rows[:, 1:] == rows[:, :-1]
    if len(scan.removed):
        wrong |= np.isin(places, scan.removed.numpy())
    places[wrong] = -1
    return places


def build(truth: Truth, scan: Scan, elements: bool) -> str:
    """Write a graph over the means or the elements of everything; the name of its file."""
    faiss = load_faiss()
    kind = faiss.ScalarQuantizer.QT_8bit_uniform  # dimensions of unit vectors have like ranges
    graph = faiss.IndexHNSWSQ(truth.settings.dim, kind, LINKS, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = EFFORT
    step = max(1, len(scan) // SAMPLE)
    sample = torch.cat([part.sets[::step].mean(dim=1) for part in scan.parts])
    sets = torch.cat([part.sets[::step].flatten(0, 1) for part in scan.parts]) if elements else None
    graph.train((sample if sets is None else sets).numpy())
    named = faiss.IndexIDMap(graph)
    for rows, part in _portions(scan):
        vectors = part if elements else part.mean(dim=1, keepdim=True)
        named.add_with_ids(vectors.flatten(0, 1).numpy(), np.repeat(rows, vectors.shape[1]))
    name = f"{'elements' if elements else 'means'}-{uuid.uuid4().hex[:8]}{ENDING}"
    beside = truth.folder / f"{name}.part"
    faiss.write_index(named, os.fspath(beside))
    try:
        replace_durably(beside, truth.folder / name)
    except FileNotFoundError as error:
        raise _outrun(truth) from error
    return name


def _portions(scan: Scan) -> Iterator[tuple[Int64[np.ndarray, " items"], Tensor]]:
    removed = scan.rows[scan.removed.numpy()]
    for part in scan.parts:
        for start in range(0, len(part), PORTION):
            rows = part.rows[start : start + PORTION].numpy()
            kept = ~np.isin(rows, removed)
            yield rows[kept], part.sets[start : start + PORTION][torch.from_numpy(kept)]


def plans(truth: Truth, scan: Scan) -> Iterator[Plan]:
    """Graphs, the cheaper ones first; each is built when it is asked for."""
    plan = Plan(build(truth, scan, elements=False), last=int(scan.rows[-1]))
    yield plan
    yield replace(plan, elements=build(truth, scan, elements=True))


def save_plan(truth: Truth, plan: Plan) -> None:
    """Make a plan the one that counts, and forget graphs of others."""
    with truth.writing() as connection:  # nobody else sweeps
        if not all((truth.folder / name).exists() for name in _files(plan)):
            raise _outrun(truth)
        connection.execute(
            "INSERT OR REPLACE INTO about VALUES ('fast', ?)", (json.dumps(asdict(plan)),)
        )
    with truth.writing():  # on its own: the old graphs are needed until the new plan is on disk
        kept = _files(need_plan(truth))
        for file in truth.folder.glob(f"*{ENDING}*"):
            if file.name not in kept:
                file.unlink(missing_ok=True)


def _files(plan: Plan) -> list[str]:
    return [name for name in (plan.means, plan.elements) if name]


def _outrun(truth: Truth) -> IndexFileError:
    return IndexFileError(
        f"{truth.folder} was tuned by another process meanwhile, whose plan counts now; "
        "tune again if you want another one"
    )


def read_plan(truth: Truth) -> Plan | None:
    """The plan that counts, if there is one."""
    found = truth.connection.execute("SELECT value FROM about WHERE key = 'fast'").fetchone()
    return Plan(**json.loads(found[0])) if found else None


def need_plan(truth: Truth) -> Plan:
    plan = read_plan(truth)
    if plan is None:
        raise OptionError(
            f"{truth.folder} is not ready for exact=False; run diverset index tune {truth.folder}"
        )
    return plan
