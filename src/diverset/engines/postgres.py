"""PostgreSQL with pgvector as a store of embedding sets.

A table has one row per item: id, metadata, the mean of the set and every element. Exact search
scores all rows; approximate search only the candidates whose mean is nearest, by an HNSW index if
the table has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql
from psycopg.types.json import Jsonb

from diverset.engines.postgres_filter import Condition, to_sql
from diverset.engines.postgres_options import PostgresOptions, create_table
from diverset.engines.postgres_score import parameters, score, weights
from diverset.engines.postgres_server import Server
from diverset.engines.settings import (
    check_name,
    check_storable,
    element_names,
    from_stored,
    to_stored,
)
from diverset.errors import EngineError, OptionError
from diverset.index.checks import check_queries, storable_ids
from diverset.index.explain import pair_cosines
from diverset.index.set_store import Hit, IndexSettings, Metadata, Records, Sets
from diverset.runtime.close_on_error import close_on_error

SETTINGS_TABLE = "diverset_settings"  # the settings of all stores of a database
EF_SEARCH_FACTOR = 2  # nodes visited per candidate; see docs/log.md
MAX_EF_SEARCH = 1000  # pgvector's limit of hnsw.ef_search
LOCK = 0x64_76_73_65  # advisory: two processes may create the same table at once


class PostgresStore:
    """A table of a database; see `diverset.index.SetStore` for the methods."""

    def __init__(
        self,
        server: Server,
        name: str,
        settings: IndexSettings,
        options: PostgresOptions,
    ) -> None:
        self._server, self._table = server, sql.Identifier(name)
        self.settings, self._options = settings, options
        self._elements = element_names(settings)
        server.register_vector()

    @classmethod
    def open(cls, url: str, name: str, options: PostgresOptions | None = None) -> PostgresStore:
        """Open an existing store; `url` is anything that libpq accepts."""
        with close_on_error(Server(url)) as server:
            stored = _read_settings(server, name)
            if stored is None:
                raise EngineError(
                    f"{server.label} has no store {name!r}; create it with diverset store copy or "
                    "diverset store load-shards"
                )
            settings = from_stored(stored, f"{server.label} table {name}")
            return cls(server, name, settings, options or PostgresOptions())

    @classmethod
    def create(
        cls, url: str, name: str, settings: IndexSettings, options: PostgresOptions | None = None
    ) -> PostgresStore:
        """Create an empty table, and the extension if the database lacks it."""
        _check_name(name)
        values = {"name": name, "content": Jsonb(to_stored(settings))}
        with closing(Server(url)) as server, server.transaction():
            server.fetch("SELECT pg_advisory_xact_lock(%(lock)s)", lock=LOCK)
            server.execute("CREATE EXTENSION IF NOT EXISTS vector")
            server.execute(
                f"CREATE TABLE IF NOT EXISTS {SETTINGS_TABLE} "
                "(name text PRIMARY KEY, settings jsonb NOT NULL)"
            )
            for statement in create_table(name, settings, options or PostgresOptions()):
                server.execute(statement)
            server.execute(f"INSERT INTO {SETTINGS_TABLE} VALUES (%(name)s, %(content)s)", **values)
        return cls.open(url, name, options)

    @staticmethod
    def exists(url: str, name: str) -> bool:
        with closing(Server(url)) as server:
            return _read_settings(server, name) is not None

    def add(
        self, ids: Sequence[str], sets: Sets, metadata: Sequence[Metadata] | None = None
    ) -> None:
        items = check_storable(self.settings, ids, sets, metadata)
        columns = ["metadata", "mean", *self._elements]
        statement = sql.SQL(
            "INSERT INTO {} (id, {}) VALUES (%s, {}) ON CONFLICT (id) DO UPDATE SET {}"
        ).format(
            self._table,
            _identifiers(columns),
            sql.SQL(", ").join([sql.Placeholder()] * len(columns)),
            sql.SQL(", ").join(
                sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(column)) for column in columns
            ),
        )
        rows = (
            (item, Jsonb(dict(fields)), elements.mean(axis=0), *elements)
            for item, fields, elements in zip(items.ids, items.metadata, items.sets, strict=True)
        )
        with self._server.transaction(), self._server.connection.cursor() as cursor:
            cursor.executemany(statement, rows)

    def delete(self, ids: Sequence[str]) -> int:
        statement = sql.SQL("DELETE FROM {} WHERE id = ANY(%(ids)s)").format(self._table)
        return self._server.execute(statement, ids=storable_ids(ids))

    def search(
        self, queries: Sets, k: int = 10, filter: str | None = None, exact: bool = True
    ) -> list[list[Hit]]:
        checked, limit = check_queries(self.settings, queries, k)
        condition = to_sql(filter)
        return [self._search(query, limit, condition, exact) for query in checked]

    def count(self, filter: str | None = None) -> int:
        condition = to_sql(filter)
        statement = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(self._table, condition.text)
        return int(self._server.fetch(statement, **condition.values)[0][0])

    def walk(self, size: int = 1000) -> Iterator[Records]:
        statement = sql.SQL(
            "SELECT id, metadata, {} FROM {} WHERE id > %(after)s ORDER BY id LIMIT %(size)s"
        ).format(_identifiers(self._elements), self._table)
        after = ""
        while rows := self._server.fetch(statement, after=after, size=size):
            yield Records([row[0] for row in rows], _sets(rows, 2), [row[1] for row in rows])
            after = rows[-1][0]

    def close(self) -> None:
        self._server.close()

    def _search(
        self, query: NDArray[np.float32], k: int, condition: Condition, exact: bool
    ) -> list[Hit]:
        candidates = None if exact else max(k, self._options.candidates)
        rows = self._best_rows(query, k, condition, candidates)
        if candidates is not None and len(rows) < k:
            # An HNSW search with a filter may end before k items are found.
            rows = self._best_rows(query, k, condition, None)
        if not rows:
            return []
        cosines = pair_cosines(query, _sets(rows, 3))
        return [
            Hit(row[0], row[1], row[2], pairs, self.settings.alpha)
            for row, pairs in zip(rows, cosines, strict=True)
        ]

    def _best_rows(
        self, query: NDArray[np.float32], k: int, condition: Condition, candidates: int | None
    ) -> list[tuple[Any, ...]]:
        """Rows of id, score, metadata and elements; of all rows, or of candidates."""
        source = sql.SQL("SELECT * FROM {} WHERE {}").format(self._table, condition.text)
        if candidates is not None:
            source += sql.SQL(" ORDER BY mean <#> %(mean)s LIMIT %(candidates)s")
        statement = sql.SQL(
            "SELECT id, score, metadata, {elements} FROM (SELECT id, {score} AS score FROM "
            "({source}) AS item CROSS JOIN LATERAL {weights} AS pairs "
            "ORDER BY score DESC, id LIMIT %(k)s) AS best JOIN {table} USING (id) "
            "ORDER BY score DESC, id"
        ).format(
            elements=_identifiers(self._elements),
            score=score(len(query), len(self._elements)),
            source=source,
            weights=weights(len(query), self._elements),
            table=self._table,
        )
        values = {**parameters(query, self.settings.alpha), **condition.values}
        with self._server.transaction():
            if candidates is not None:
                ef_search = str(min(EF_SEARCH_FACTOR * candidates, MAX_EF_SEARCH))
                setting = "SELECT set_config('hnsw.ef_search', %(value)s, true)"
                self._server.fetch(setting, value=ef_search)
                self._server.fetch(
                    "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true)"
                )
            return self._server.fetch(statement, k=k, candidates=candidates, **values)


def _check_name(name: str) -> None:
    if check_name("table", name).lower() == SETTINGS_TABLE:
        raise OptionError(f"{SETTINGS_TABLE} is the table of settings; give the store another name")


def _read_settings(server: Server, name: str) -> object:
    _check_name(name)
    if server.fetch("SELECT to_regclass(%(name)s)::text", name=SETTINGS_TABLE) == [(None,)]:
        return None
    statement = f"SELECT settings FROM {SETTINGS_TABLE} WHERE name = %(name)s"
    rows = server.fetch(statement, name=name)
    return rows[0][0] if rows else None


def _identifiers(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def _sets(rows: Sequence[tuple[Any, ...]], first: int) -> NDArray[np.float32]:
    return np.stack([[vector.to_numpy() for vector in row[first:]] for row in rows])
