"""Layout of a PostgreSQL table, and the parameters of approximate search."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from diverset.engines.settings import element_names
from diverset.errors import check_choice, check_count
from diverset.index.set_store import IndexSettings

INDEXES = ("none", "hnsw")
PAGE = 8160  # bytes of a row that fit into one page; the rest would be stored elsewhere (TOAST)


@dataclass(frozen=True)
class PostgresOptions:
    """All but `candidates` only apply when a table is created."""

    candidates: int = 500
    """Rows scored by a search with `exact=False`: those whose mean is nearest."""
    index: str = "none"
    """Over the mean: a name in `INDEXES`."""
    m: int = 16
    """Neighbors per node of the HNSW graph."""
    ef_construction: int = 64
    """Nodes visited to find the neighbors of a new one."""

    def __post_init__(self) -> None:
        check_choice("index", self.index, INDEXES)
        for name in ("candidates", "m", "ef_construction"):
            check_count(name, getattr(self, name))


def create_table(
    name: str, settings: IndexSettings, options: PostgresOptions
) -> list[sql.Composed]:
    """The statements that create an empty table."""
    columns = [
        sql.SQL("{} vector({}) NOT NULL").format(sql.Identifier(column), settings.dim)
        for column in ("mean", *element_names(settings))
    ]
    # Vectors stay in the row as long as they fit: a scan that reads them elsewhere is slower.
    table = sql.SQL(
        'CREATE TABLE {} (id text COLLATE "C" PRIMARY KEY, metadata jsonb NOT NULL, {}) '
        "WITH (toast_tuple_target = {})"
    ).format(sql.Identifier(name), sql.SQL(", ").join(columns), PAGE)
    graph = sql.SQL(
        "CREATE INDEX ON {} USING hnsw (mean vector_ip_ops) WITH (m = {}, ef_construction = {})"
    ).format(sql.Identifier(name), options.m, options.ef_construction)
    return [table, graph] if options.index == "hnsw" else [table]
