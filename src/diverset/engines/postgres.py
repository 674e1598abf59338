"""PostgreSQL with pgvector as a store of embedding sets: one server, or whatever speaks like it.

A table has a row an item: id, metadata, the mean of the set and every element. By default all rows
are scored, which is exact; with an HNSW index over the mean only the nearest candidates are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql
from psycopg.types.json import Jsonb

from diverset.engines.postgres_filter import Condition, to_sql
from diverset.engines.postgres_options import PostgresOptions, create_table
from diverset.engines.postgres_score import element, parameters, score, weights
from diverset.engines.postgres_server import Server
from diverset.engines.settings import check_name, check_storable, from_stored, to_stored
from diverset.errors import EngineError, OptionError
from diverset.index.base import Hit, Metadata, Records, Sets, Settings
from diverset.index.checks import check_k, check_queries, wanted_ids
from diverset.index.explain import explain
from diverset.index.where import parse

SETTINGS = "diverset_settings"  # the table of all indexes of a database
EXPLORED = 2  # rows of the graph that are looked at for each candidate; see docs/log.md
MOST_EXPLORED = 1000  # pgvector's limit of hnsw.ef_search
LOCK = 0x64_76_73_65  # advisory: two processes may make the same table at once


class PostgresStore:
    """A table of a database; see `diverset.index.base.SetStore` for the methods."""

    def __init__(
        self, server: Server, name: str, settings: Settings, options: PostgresOptions | None = None
    ) -> None:
        self._server, self._table = server, sql.Identifier(name)
        self._settings, self._options = settings, options or PostgresOptions()
        self._elements = [element(place) for place in range(settings.slots)]
        server.learn_vectors()

    @classmethod
    def open(cls, url: str, name: str, options: PostgresOptions | None = None) -> PostgresStore:
        """Open an index that exists; `url` is anything that libpq takes."""
        with ExitStack() as stack:
            server = stack.enter_context(closing(Server(url)))
            stored = _stored(server, name)
            if stored is None:
                raise EngineError(
                    f"{server.place} has no index {name!r}; make it by diverset index copy or "
                    "add-shards"
                )
            settings = from_stored(stored, f"{server.place} table {name}")
            store = cls(server, name, settings, options)
            stack.pop_all()  # all went well: it stays open
        return store

    @classmethod
    def create(
        cls, url: str, name: str, settings: Settings, options: PostgresOptions | None = None
    ) -> PostgresStore:
        """Make a new, empty table, and the extension if the database lacks it."""
        _check_name(name)
        content = Jsonb(to_stored(settings))
        with closing(Server(url)) as server, server.together():
            server.ask("SELECT pg_advisory_xact_lock(%(lock)s)", lock=LOCK)
            server.tell("CREATE EXTENSION IF NOT EXISTS vector")
            server.tell(
                f"CREATE TABLE IF NOT EXISTS {SETTINGS} "
                "(name text PRIMARY KEY, settings jsonb NOT NULL)"
            )
            for statement in create_table(name, settings, options or PostgresOptions()):
                server.tell(statement)
            row = {"name": name, "content": content}
            server.tell(f"INSERT INTO {SETTINGS} VALUES (%(name)s, %(content)s)", **row)
        return cls.open(url, name, options)

    @staticmethod
    def exists(url: str, name: str) -> bool:
        """Whether there is an index of this name."""
        with closing(Server(url)) as server:
            return _stored(server, name) is not None

    @property
    def settings(self) -> Settings:
        return self._settings

    def add(
        self, ids: Sequence[str], sets: Sets, metadata: Sequence[Metadata] | None = None
    ) -> None:
        items = check_storable(self._settings, ids, sets, metadata)
        names = ["metadata", "mean", *self._elements]
        statement = sql.SQL(
            "INSERT INTO {} (id, {}) VALUES (%s, {}) ON CONFLICT (id) DO UPDATE SET {}"
        ).format(
            self._table,
            _listed(names),
            sql.SQL(", ").join([sql.Placeholder()] * len(names)),
            sql.SQL(", ").join(
                sql.SQL("{0} = EXCLUDED.{0}").format(sql.Identifier(name)) for name in names
            ),
        )
        rows = (
            (one, Jsonb(dict(fields)), elements.mean(axis=0), *elements)
            for one, fields, elements in zip(items.ids, items.metadata, items.sets, strict=True)
        )
        self._server.tell_each(statement, rows)

    def delete(self, ids: Sequence[str]) -> int:
        statement = sql.SQL("DELETE FROM {} WHERE id = ANY(%(ids)s)").format(self._table)
        return self._server.tell(statement, ids=wanted_ids(ids))

    def search(self, queries: Sets, k: int = 10, where: str | None = None) -> list[list[Hit]]:
        checked, limit = check_queries(self._settings, queries), check_k(k)
        condition = to_sql(None if where is None else parse(where))
        return [self._found(query, limit, condition) for query in checked]

    def count(self, where: str | None = None) -> int:
        condition = to_sql(None if where is None else parse(where))
        statement = sql.SQL("SELECT count(*) FROM {} WHERE {}").format(self._table, condition.text)
        return int(self._server.ask(statement, **condition.values)[0][0])

    def walk(self, size: int = 1000) -> Iterator[Records]:
        statement = sql.SQL(
            "SELECT id, metadata, {} FROM {} WHERE id > %(after)s ORDER BY id LIMIT %(size)s"
        ).format(_listed(self._elements), self._table)
        after = ""
        while rows := self._server.ask(statement, after=after, size=size):
            yield Records([row[0] for row in rows], _sets(rows, 2), [row[1] for row in rows])
            after = rows[-1][0]

    def close(self) -> None:
        self._server.close()

    def _found(self, query: NDArray[np.float32], k: int, condition: Condition) -> list[Hit]:
        candidates = max(k, self._options.candidates) if self._options.candidates else 0
        rows = self._best(query, k, condition, candidates)
        if candidates and len(rows) < k:
            # A graph that is searched under a filter may end before k items are found.
            rows = self._best(query, k, condition, 0)
        if not rows:
            return []
        why = explain(query, _sets(rows, 3), self._settings.alpha)
        return [
            Hit(row[0], row[1], row[2], contributions, cosines)
            for row, contributions, cosines in zip(
                rows, why.contributions, why.cosines, strict=True
            )
        ]

    def _best(
        self, query: NDArray[np.float32], k: int, condition: Condition, candidates: int
    ) -> list[tuple[Any, ...]]:
        source = sql.SQL("SELECT * FROM {} WHERE {}").format(self._table, condition.text)
        if candidates:
            source += sql.SQL(" ORDER BY mean <#> %(mean)s LIMIT %(candidates)s")
        slots = self._settings.slots
        statement = sql.SQL(
            "SELECT id, score, metadata, {elements} FROM (SELECT id, {score} AS score FROM "
            "({source}) AS item CROSS JOIN LATERAL {weights} AS pairs "
            "ORDER BY score DESC, id LIMIT %(k)s) AS best JOIN {table} USING (id) "
            "ORDER BY score DESC, id"
        ).format(
            elements=_listed(self._elements),
            score=score(len(query), slots),
            source=source,
            weights=weights(len(query), slots),
            table=self._table,
        )
        values = {**parameters(query, self._settings.alpha), **condition.values}
        with self._server.together():
            if candidates:
                explored = str(min(EXPLORED * candidates, MOST_EXPLORED))
                self._server.ask("SELECT set_config('hnsw.ef_search', %(to)s, true)", to=explored)
                self._server.ask("SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true)")
            return self._server.ask(statement, k=k, candidates=candidates, **values)


def _check_name(name: str) -> None:
    if check_name("table", name).lower() == SETTINGS:
        raise OptionError(f"{SETTINGS} is the table of settings; give the index another name")


def _stored(server: Server, name: str) -> object:
    _check_name(name)
    if server.ask("SELECT to_regclass(%(name)s)::text", name=SETTINGS) == [(None,)]:
        return None
    rows = server.ask(f"SELECT settings FROM {SETTINGS} WHERE name = %(name)s", name=name)
    return rows[0][0] if rows else None


def _listed(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def _sets(rows: Sequence[tuple[Any, ...]], first: int) -> NDArray[np.float32]:
    return np.array([row[first:] for row in rows], dtype=np.float32)
