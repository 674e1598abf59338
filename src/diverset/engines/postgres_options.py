"""How a table is laid out and searched."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from diverset.engines.postgres_score import element
from diverset.errors import OptionError, check_choice
from diverset.index.base import Settings

INDEXES = ("none", "hnsw")
PAGE = 8160  # bytes of a row that PostgreSQL keeps in one page; what is above goes elsewhere


@dataclass(frozen=True)
class PostgresOptions:
    """`index` and those below it count when a table is made."""

    candidates: int = 0
    """Rows nearest by their means that are scored; 0 for all, which is exact."""
    index: str = "none"
    """Over the mean: a name in `INDEXES`."""
    m: int = 16
    """Neighbours of a row in the HNSW graph."""
    ef_construction: int = 64
    """Rows that are looked at to find these neighbours."""

    def __post_init__(self) -> None:
        check_choice("index", self.index, INDEXES)
        if self.candidates < 0:
            raise OptionError(f"candidates is {self.candidates}; give a number from 0 on")


def create_table(name: str, settings: Settings, options: PostgresOptions) -> list[sql.Composed]:
    """The statements that make an empty table."""
    columns = [
        sql.SQL("{} vector({}) NOT NULL").format(sql.Identifier(column), settings.dim)
        for column in ("mean", *(element(place) for place in range(settings.slots)))
    ]
    # Vectors stay in the row as long as they fit: a scan that looks each up elsewhere is slower.
    table = sql.SQL(
        'CREATE TABLE {} (id text COLLATE "C" PRIMARY KEY, metadata jsonb NOT NULL, {}) '
        "WITH (toast_tuple_target = {})"
    ).format(sql.Identifier(name), sql.SQL(", ").join(columns), PAGE)
    graph = sql.SQL(
        "CREATE INDEX ON {} USING hnsw (mean vector_ip_ops) WITH (m = {}, ef_construction = {})"
    ).format(sql.Identifier(name), options.m, options.ef_construction)
    return [table, graph] if options.index == "hnsw" else [table]
