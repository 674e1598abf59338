"""The embedded index: a folder that stores embedding sets and finds the most similar ones.

`SetIndex` joins the truth (SQLite), the scan over codes and the exact scores. Many processes may
read a folder while one writes; each call sees one moment. Calls on one object from several threads
wait for each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float

from diverset.errors import IndexFileError, OptionError
from diverset.index import upkeep
from diverset.index.base import Hit, Metadata, Records, Sets, Settings
from diverset.index.checks import check_items, check_k, check_queries, wanted_ids
from diverset.index.codes import Codes, encode_queries
from diverset.index.fast import Graphs, Plan, need_plan, plans, read_plan, save_plan
from diverset.index.ranking import Rule, ranked, ranked_by
from diverset.index.scan import PORTION, Positions, Scan, padded
from diverset.index.segments import Segment, read
from diverset.index.truth import FILE, Outdated, Truth, reporting
from diverset.index.tune import Tuned, choose, sample_queries
from diverset.index.verify import problems

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class _View:
    """What was derived from one state of the truth."""

    changes: int
    files: dict[Segment, Codes]
    broken: list[Segment]
    tail: Codes
    scan: Scan


class SetIndex:
    """Embedding sets in a folder, searched by smooth-Chamfer similarity.

    >>> import tempfile, numpy as np
    >>> settings = Settings(model="example", slots=2, dim=4)
    >>> index = SetIndex.create(tempfile.mkdtemp() + "/index", settings)
    >>> index.add(["a", "b"], np.eye(4, dtype=np.float32).reshape(2, 2, 4), [{"year": 1}, {}])
    >>> [hit] = index.search(np.eye(4, dtype=np.float32)[None, :2], where="year = 1")[0]
    >>> hit.id, round(hit.score, 4)
    ('a', 1.0)
    >>> index.close()
    """

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._lock = threading.RLock()
        self._view: _View | None = None
        self._opened: Graphs | None = None
        self._planned: tuple[int, Plan] | None = None  # at which count of changes it was read

    @classmethod
    def create(cls, folder: str | Path, settings: Settings) -> SetIndex:
        """Make an empty index in a folder that has none."""
        return cls(Truth.create(Path(folder), settings))

    @classmethod
    def open(cls, folder: str | Path, model: str | None = None) -> SetIndex:
        """Open an index.

        Args:
            folder: where it is.
            model: fingerprint of the model that queries come from; another one is refused.
        """
        truth = Truth.open(Path(folder))
        if model is not None and model != truth.settings.model:
            truth.close()
            raise IndexFileError(
                f"{folder} holds sets of model {truth.settings.model}, not of {model}; "
                "open it with that model, or encode the collection again"
            )
        return cls(truth)

    @property
    def settings(self) -> Settings:
        return self._truth.settings

    @property
    def folder(self) -> Path:
        return self._truth.folder

    def add(
        self, ids: Sequence[str], sets: Sets, metadata: Sequence[Metadata] | None = None
    ) -> None:
        """Store sets under their ids, replacing those that exist; durable once it returns."""
        items = check_items(self.settings, ids, sets, metadata)
        with self._guard():
            self._truth.add(items.ids, items.sets, items.metadata)
            with suppress(OSError, IndexFileError):  # the items are safe; files can wait
                upkeep.flush(self._truth)

    def delete(self, ids: Sequence[str]) -> int:
        """Forget items; says how many of them were there."""
        with self._guard():
            return self._truth.delete(wanted_ids(ids))

    def search(
        self, queries: Sets, k: int = 10, where: str | None = None, exact: bool = True
    ) -> list[list[Hit]]:
        """For each query set the k most similar items that pass the filter, best first.

        Args:
            queries: query sets; they may have another number of elements than the stored ones.
            k: how many to find; fewer come back where there are fewer.
            where: a filter over metadata (`diverset.index.where`).
            exact: the provably best; else by the plan that `tune` found, with the recall it
                measured. With a filter the search is always exact.
        """
        queries, k = check_queries(self.settings, queries), check_k(k)
        with self._guard():
            view, hits = self._ask(lambda: self._searched(queries, k, where, exact))
            if view.broken:
                with suppress(OSError, IndexFileError):  # a reader's folder may be read-only
                    upkeep.mend(self._truth, view.broken)
            return hits

    def search_by(
        self,
        query: Float[np.ndarray, "query_slots dim"],
        rule: Rule,
        k: int = 10,
        where: str | None = None,
    ) -> list[Hit]:
        """The k best by any function of the cosines of elements, read from every set there is.

        Args:
            query: elements of unit length, of one set or of several.
            rule: from cosines to scores, larger is better.
            k: how many to find.
            where: a filter over metadata.
        """
        query, k = check_queries(self.settings, np.asarray(query)[None])[0], check_k(k)
        with self._guard(), self._truth.reading():
            scan = self.view().scan
            if where is None:
                chosen = np.setdiff1d(np.arange(len(scan)), scan.removed.numpy())
            else:
                chosen = scan.positions(self._truth.rows(where))
            return ranked_by(self._truth, scan, query, chosen, rule, k)

    def get(self, ids: Sequence[str]) -> Records:
        """Those of some items that are there, in the order asked for."""
        with self._guard(), self._truth.reading():
            return self._truth.get(wanted_ids(ids))

    def sample(self, count: int, seed: int = 0) -> Sets:
        """The sets of some items, at random but the same ones until something changes."""
        with self._guard(), self._truth.reading():
            scan = self.view().scan
            there = np.setdiff1d(np.arange(len(scan)), scan.removed.numpy())
            if not len(there):
                return np.zeros((0, self.settings.slots, self.settings.dim), dtype=np.float32)
            chance = np.random.default_rng(seed)
            chosen = chance.permutation(there)[:count]
            return scan.sets_at(chosen).copy()

    def count(self, where: str | None = None) -> int:
        """How many items there are, or pass a filter."""
        return self._ask(lambda: self._truth.count(where))

    def fields(self) -> list[tuple[str, str]]:
        """Names of metadata, each with the kinds of its values (`diverset.index.where.kind`)."""
        return self._ask(self._truth.fields)

    def walk(self, size: int = 1000) -> Iterator[Records]:
        """All items, in parts of at most `size`, in the order of their ids."""
        parts = self._truth.walk(size)
        while True:
            with self._guard():
                part = next(parts, None)
            if part is None:
                return
            yield part

    def compact(self) -> None:
        """Drop what was deleted or replaced, and bring the files into few."""
        with self._guard():
            upkeep.compact(self._truth)

    def verify(self) -> list[str]:
        """Check everything; what is wrong, in words, and nothing if all is well."""
        return self._ask(lambda: problems(self._truth))

    def tune(self, queries: Sets | None = None, recall: float = 0.99, k: int = 10) -> Tuned:
        """Make the fast mode ready: the cheapest plan that reaches a recall on these queries.

        Args:
            queries: such as will be asked, some hundreds; by default, stored sets a little turned.
            recall: of the exact k best, averaged over queries.
            k: how many will be asked for.
        """
        if not self.count():
            raise OptionError(f"{self.folder} is empty; add items before tuning")
        with self._guard(), self._truth.reading():
            scan = self.view().scan
            queries = sample_queries(scan) if queries is None else queries
            queries, k = check_queries(self.settings, queries), check_k(k)
            tuned = choose(
                lambda some, plan: self._search(scan, some, k, None, plan),
                plans(self._truth, scan),
                queries,
                k,
                recall,
            )
        with self._guard():
            save_plan(self._truth, tuned.plan)
        return tuned

    @property
    def plan(self) -> Plan | None:
        """How the fast mode searches, once `tune` has made it ready."""
        with self._guard():
            return read_plan(self._truth)

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            self._view = self._opened = None
            self._truth.close()

    def __enter__(self) -> SetIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _guard(self) -> Iterator[None]:
        with self._lock, reporting(self.folder):
            self._truth.refresh()
            yield

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """An answer of one moment; asked once more where that moment is gone before it is over."""
        try:
            return self._ask_once(question)
        except Outdated:
            return self._ask_once(question)

    def _ask_once(self, question: Callable[[], Answer]) -> Answer:
        with self._guard(), self._truth.reading():
            return question()

    def view(self) -> _View:
        """Codes that agree with the truth as it is now; kept until it changes."""
        changes, old = self._truth.changes(), self._view
        if old is not None and old.changes == changes:
            return old
        files, broken = {}, []
        for segment in upkeep.listed(self._truth):
            codes = old.files.get(segment) if old else None
            codes = codes or read(self.folder, segment, self.settings)
            if codes is None:
                broken.append(segment)
                codes = upkeep.coded(self._truth, segment.first, segment.last)
            files[segment] = codes
        first = upkeep.tail_start(list(files))
        tail = upkeep.tail(self._truth, first, old.tail if old else None)
        scan = Scan([*files.values(), tail], self._truth.removed(), self.settings.alpha)
        self._view = _View(changes, files, broken, tail, scan)
        return self._view

    def _searched(
        self, queries: Sets, k: int, where: str | None, exact: bool
    ) -> tuple[_View, list[list[Hit]]]:
        view = self.view()
        if not exact and (self._planned is None or self._planned[0] != view.changes):
            self._planned = view.changes, need_plan(self._truth)
        plan = None if exact or self._planned is None else self._planned[1]
        return view, self._search(view.scan, queries, k, where, plan)

    def _search(
        self, scan: Scan, queries: Sets, k: int, where: str | None, plan: Plan | None
    ) -> list[list[Hit]]:
        """By a plan of the fast mode, or exactly."""
        if plan is None or where is not None or not len(scan):
            return self._exactly(scan, queries, k, where)
        found = self._graphs(plan).candidates(scan, queries, k)
        hits = list(ranked(self._truth, scan, queries, found, k, exact=False))
        wanted = min(k, len(scan) - len(scan.removed))
        short = [number for number, some in enumerate(hits) if len(some) < wanted]
        if short:  # of what the graphs found, too much was deleted
            exact = self._exactly(scan, queries[short], k, where)
            for number, some in zip(short, exact, strict=True):
                hits[number] = some
        return hits

    def _exactly(self, scan: Scan, queries: Sets, k: int, where: str | None) -> list[list[Hit]]:
        found = padded(self._survivors(scan, queries, k, where))
        return list(ranked(self._truth, scan, queries, found, k))

    def _survivors(
        self, scan: Scan, queries: Sets, k: int, where: str | None
    ) -> Iterator[Positions]:
        coded = encode_queries(queries)
        if where is None:
            return scan.survivors(coded, k)
        chosen = torch.from_numpy(scan.positions(self._truth.rows(where)))
        if len(chosen) <= max(PORTION, len(scan) // 20):
            return (scan.narrow(query, chosen, k) for query in coded)
        allowed = torch.zeros(len(scan), dtype=torch.bool)
        allowed[chosen] = True
        return scan.survivors(coded, k, allowed)

    def _graphs(self, plan: Plan) -> Graphs:
        if self._opened is None or self._opened.plan != plan:
            self._opened = Graphs(self.folder, plan, self._opened)
        return self._opened

    @property
    def state(self) -> str:
        """A short text that is another one after every change, and in an index made anew."""
        with self._guard():
            return f"{(self.folder / FILE).stat().st_ino}-{self._truth.changes()}"
