"""The embedded index: a folder that stores embedding sets and finds the most similar ones.

Many processes may read a folder while one writes; each call sees one consistent state. Threads may
share an object; their calls run one after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from diverset.errors import IndexFileError, OptionError
from diverset.index import segment_writer
from diverset.index.approximate import (
    Graphs,
    Plan,
    build_plans,
    read_plan,
    require_plan,
    save_plan,
)
from diverset.index.block_checks import DamagedSegmentError
from diverset.index.checks import check_items, check_queries, storable_ids
from diverset.index.database_errors import StaleReadError, translate_errors
from diverset.index.filter_checks import check_fields
from diverset.index.filter_language import Filter
from diverset.index.filter_parser import parse
from diverset.index.item_database import ItemDatabase
from diverset.index.quantized_codes import Codes
from diverset.index.ranking import ScoreFunction, make_hits, rank_by
from diverset.index.scan import Scan
from diverset.index.schema import FILE
from diverset.index.segments import Segment, read
from diverset.index.set_store import Hit, IndexSettings, Metadata, Records, Sets
from diverset.index.tune import TuningResult, choose_plan, sample_queries
from diverset.index.verify import find_problems
from diverset.runtime.close_on_error import close_on_error

Result = TypeVar("Result")


@dataclass
class _View:
    """What was derived from one state of the item database.

    Attributes:
        changes: `ItemDatabase.changes` of that state.
        segments: codes of every segment.
        unflushed: codes of the items that are in no segment yet.
        scan: over all these codes.
        plan: of approximate search; read when it is needed first.
    """

    changes: int
    segments: dict[Segment, Codes]
    unflushed: Codes
    scan: Scan
    plan: Plan | None = None

    @property
    def damaged(self) -> list[Segment]:
        """Segments that could not be read; their codes come from the item database."""
        return [segment for segment, codes in self.segments.items() if codes.checks is None]


class SetIndex:
    """Embedding sets in a folder, searched by smooth-Chamfer similarity.

    >>> import tempfile, numpy as np
    >>> settings = IndexSettings(model="example", elements=2, dim=4)
    >>> index = SetIndex.create(tempfile.mkdtemp() + "/index", settings)
    >>> index.add(["a", "b"], np.eye(4, dtype=np.float32).reshape(2, 2, 4), [{"year": 1}, {}])
    >>> [hit] = index.search(np.eye(4, dtype=np.float32)[None, :2], filter="year = 1")[0]
    >>> hit.id, round(hit.score, 4)
    ('a', 1.0)
    >>> index.close()
    """

    def __init__(self, database: ItemDatabase) -> None:
        self._database = database
        self._lock = threading.RLock()
        self._view: _View | None = None
        self._graphs: Graphs | None = None
        self._damaged: set[str] = set()  # segment files that failed a checksum

    @classmethod
    def create(cls, folder: str | Path, settings: IndexSettings) -> SetIndex:
        """Create an empty index in a folder that has none."""
        return cls(ItemDatabase.create(Path(folder), settings))

    @classmethod
    def open(cls, folder: str | Path, model: str | None = None) -> SetIndex:
        """Open an index; one of another model than `model`, a fingerprint, is rejected."""
        with close_on_error(ItemDatabase.open(Path(folder))) as database:
            if model is not None and model != database.settings.model:
                raise IndexFileError(
                    f"{folder} has model {database.settings.model}, not {model}; "
                    "open it with that model, or encode the collection again"
                )
            return cls(database)

    @property
    def settings(self) -> IndexSettings:
        return self._database.settings

    @property
    def folder(self) -> Path:
        return self._database.folder

    def add(
        self, ids: Sequence[str], sets: Sets, metadata: Sequence[Metadata] | None = None
    ) -> None:
        """Add or replace items; durable when it returns."""
        items = check_items(self.settings, ids, sets, metadata)
        with self._access():
            self._database.add(items)
            with suppress(OSError, IndexFileError):  # the items are stored; segments can wait
                segment_writer.flush(self._database)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete items; returns how many existed."""
        with self._access():
            return self._database.delete(storable_ids(ids))

    def search(
        self, queries: Sets, k: int = 10, filter: str | Filter | None = None, exact: bool = True
    ) -> list[list[Hit]]:
        """For each query set, the k most similar items that match the filter, best first.

        Arguments as in `SetStore.search`. A filter with an unknown field or a value of another
        kind is rejected; one that is parsed already is applied as it is. With `exact=False`, items
        are searched by the plan that `tune` chose, with the recall it measured; a search with a
        filter is exact nevertheless.
        """
        queries, k = check_queries(self.settings, queries, k)
        return self._read(lambda: self._search_view(queries, k, filter, exact))

    def search_by(
        self,
        query: Float[np.ndarray, "query_elements dim"],
        score: ScoreFunction,
        k: int = 10,
        filter: str | Filter | None = None,
    ) -> list[Hit]:
        """The k best items by any function of the cosines of elements; reads every set.

        Args:
            query: elements of unit length, of one or several sets.
            score: from cosines to scores, larger is better.
            k: as in `search`.
            filter: as in `search`.
        """
        [query], k = check_queries(self.settings, np.asarray(query)[None], k)

        def best() -> list[Hit]:
            scan, tree = self.view().scan, self._parse(filter)
            if tree is None:
                positions = scan.current()
            else:
                positions = scan.positions(self._database.rows(tree))
            return rank_by(self._database, scan, query, positions, score, k)

        return self._read(best)

    def get(self, ids: Sequence[str]) -> Records:
        """Items by id, in this order; unknown ids are skipped."""
        return self._read(lambda: self._database.get(storable_ids(ids)))

    def sample(self, count: int, seed: int = 0) -> Sets:
        """The sets of random items; the same ones until the index changes."""

        def sets() -> Sets:
            scan = self.view().scan
            positions = np.random.default_rng(seed).permutation(scan.current())[:count]
            if not len(positions):
                return np.zeros((0, self.settings.elements, self.settings.dim), dtype=np.float32)
            return scan.gather_sets(positions).copy()

        return self._read(sets)

    def count(self, filter: str | Filter | None = None) -> int:
        """Number of items, or of those that match a filter."""
        return self._read(lambda: self._database.count(self._parse(filter)))

    def ids(self, filter: str | Filter | None = None) -> list[str]:
        """Ids of all items, or of those that match a filter."""
        return self._read(lambda: self._database.ids(self._parse(filter)))

    def fields(self) -> list[tuple[str, str]]:
        """Names of metadata fields with the kinds of their values (`filter_language.kind`)."""
        return self._read(self._database.fields)

    def walk(self, size: int = 1000) -> Iterator[Records]:
        """All items in batches of at most `size`, ordered by id."""
        batches = self._database.walk(size)
        while True:
            with self._access():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def compact(self) -> None:
        """Free the space of deleted and replaced items, and merge the segments."""
        with self._access():
            self._view = None  # some systems do not delete mapped files
            segment_writer.compact(self._database)

    def verify(self) -> list[str]:
        """Check everything; descriptions of what is wrong, empty if nothing is."""
        return self._read(lambda: find_problems(self._database))

    def tune(self, queries: Sets | None = None, recall: float = 0.99, k: int = 10) -> TuningResult:
        """Prepare approximate search: the fastest plan that reaches a recall on these queries.

        Args:
            queries: some hundred typical queries; by default, stored sets with noise.
            recall: share of the exact k hits that is found, averaged over queries.
            k: number of hits per query.
        """
        if not self.count():
            raise OptionError(f"{self.folder} is empty; add items before tuning")
        self._read(lambda: [part.check_all() for part in self.view().scan.parts])
        with self._access(), self._database.reading():
            scan = self.view().scan
            queries = sample_queries(scan) if queries is None else queries
            queries, k = check_queries(self.settings, queries, k)
            result = choose_plan(
                lambda batch, plan: self._search(scan, batch, k, None, plan),
                build_plans(self._database, scan),
                queries,
                k,
                recall,
            )
        with self._access():
            save_plan(self._database, result.plan)
        return result

    @property
    def plan(self) -> Plan | None:
        """The plan of approximate search; None before `tune`."""
        with self._access():
            return read_plan(self._database)

    @property
    def state(self) -> str:
        """Changes with every write, and when the index is created again."""
        with self._access():
            return f"{(self.folder / FILE).stat().st_ino}-{self._database.changes()}"

    def checksum_on_close(self) -> None:
        """Let `close` compute a checksum of the whole database even if it is large.

        Small ones always get it, and `compact` asks for it. With it, `verify` notices every
        changed bit; without it, every changed bit that an item or a search uses.
        """
        with self._access():
            self._database.connection.checksum_limit = None

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            self._view = self._graphs = None
            self._database.close()

    def __enter__(self) -> SetIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _access(self) -> Iterator[None]:
        with self._lock, translate_errors(self.folder):
            self._database.refresh()
            yield

    def _read(self, call: Callable[[], Result]) -> Result:
        """The result of a call at one state.

        The call is repeated once if the state changes meanwhile, and whenever it finds a damaged
        segment, whose codes then come from the item database.
        """
        with self._lock:
            try:
                result = self._call(call)
            except StaleReadError:
                result = self._call(call)
            if self._view is not None and (damaged := self._view.damaged):
                with suppress(OSError, IndexFileError):  # the folder may be read-only
                    segment_writer.rebuild(self._database, damaged)
            return result

    def _call(self, call: Callable[[], Result]) -> Result:
        while True:
            try:
                with self._access(), self._database.reading():
                    return call()
            except DamagedSegmentError as error:
                self._damaged.add(error.file)
                self._view = None

    def view(self) -> _View:
        """Codes of the current state; cached until the database changes."""
        changes, old = self._database.changes(), self._view
        if old is not None and old.changes == changes:
            return old
        segments = {}
        listed = segment_writer.list_segments(self._database)
        segment_writer.check_segments(self._database, listed)
        for segment in listed:
            codes = old.segments.get(segment) if old else None
            if codes is None and segment.file not in self._damaged:
                codes = read(self.folder, segment, self.settings)
            if codes is None:
                codes = segment_writer.quantize_rows(self._database, segment.first, segment.last)
            segments[segment] = codes
        first = segment_writer.first_unflushed_row(list(segments))
        previous = old.unflushed if old else None
        unflushed = segment_writer.unflushed(self._database, first, previous)
        parts = [*segments.values(), unflushed]
        scan = Scan(parts, self._database.removed(), self.settings.alpha)
        for name in ("items", "sets"):
            self._database.checks.total(name, len(scan) - len(scan.removed))
        self._view = _View(changes, segments, unflushed, scan)
        return self._view

    def _parse(self, filter: str | Filter | None) -> Filter | None:
        """The tree of a filter, whose fields must exist unless there are no items at all."""
        if not isinstance(filter, str):
            return filter
        tree = parse(filter)
        kinds: dict[str, set[str]] = {}
        for name, kind in self._database.fields():
            kinds.setdefault(name, set()).add(kind)
        if kinds or self._database.count():
            check_fields(tree, kinds)
        return tree

    def _search_view(
        self, queries: Sets, k: int, filter: str | Filter | None, exact: bool
    ) -> list[list[Hit]]:
        view, tree = self.view(), self._parse(filter)
        if not exact and view.plan is None:
            view.plan = require_plan(self._database)
        return self._search(view.scan, queries, k, tree, None if exact else view.plan)

    def _search(
        self, scan: Scan, queries: Sets, k: int, filter: Filter | None, plan: Plan | None
    ) -> list[list[Hit]]:
        """By a plan of approximate search, or exactly."""
        if plan is None or filter is not None or not len(scan):
            return self._search_exact(scan, queries, k, filter)
        candidates = self._open_graphs(plan).candidates(scan, queries, k)
        results = make_hits(self._database, scan, scan.rank(queries, candidates, k))
        expected = min(k, len(scan) - len(scan.removed))
        short = [index for index, hits in enumerate(results) if len(hits) < expected]
        if short:  # too many of the candidates are deleted
            exact = self._search_exact(scan, queries[short], k, filter)
            for index, hits in zip(short, exact, strict=True):
                results[index] = hits
        return results

    def _search_exact(
        self, scan: Scan, queries: Sets, k: int, filter: Filter | None
    ) -> list[list[Hit]]:
        among = None if filter is None else scan.positions(self._database.rows(filter))
        return make_hits(self._database, scan, scan.search(queries, k, among))

    def _open_graphs(self, plan: Plan) -> Graphs:
        if self._graphs is None or self._graphs.plan != plan:
            self._graphs = Graphs(self.folder, plan, self._graphs)
        return self._graphs
