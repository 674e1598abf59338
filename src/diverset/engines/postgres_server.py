"""A connection to PostgreSQL whose failures name the server and the next step, never a password."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_loads

from diverset.engines.postgres_vector import register_vector
from diverset.engines.settings import LARGEST_WHOLE
from diverset.errors import EngineError, OptionError

SECONDS = 10  # to wait for a server


class Server:
    """One connection; every statement is its own transaction unless `together` says otherwise.

    Threads may share it and wait for each other.
    """

    def __init__(self, url: str) -> None:
        """Connect; `url` is anything that libpq takes."""
        self.place = place_of(url)
        self._lock = RLock()  # the driver's own covers statements, not transactions
        with self._asking():
            self.connection = psycopg.connect(url, autocommit=True, connect_timeout=SECONDS)
        set_json_loads(_loads, self.connection)

    def ask(self, statement: str | sql.Composed, **values: Any) -> list[tuple[Any, ...]]:
        """The rows that a statement gives."""
        with self._asking():
            found = self.connection.execute(_text(statement), values, binary=True)
            return found.fetchall() if found.description else []

    def tell(self, statement: str | sql.Composed, **values: Any) -> int:
        """How many rows a statement changed."""
        with self._asking():
            return self.connection.execute(_text(statement), values).rowcount

    def tell_each(self, statement: sql.Composed, rows: Iterator[tuple[Any, ...]]) -> None:
        """A statement for each of many rows, all or nothing."""
        with self._asking(), self.connection.transaction(), self.connection.cursor() as cursor:
            cursor.executemany(statement, rows)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Statements that count all or not at all."""
        with self._asking(), self.connection.transaction():
            yield

    def learn_vectors(self) -> None:
        """Send and receive numpy arrays as pgvector's type."""
        with self._asking():
            if not register_vector(self.connection):
                raise EngineError(f"{self.place} has no extension vector; CREATE EXTENSION vector")

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except psycopg.errors.DuplicateTable as error:
            raise EngineError(
                f"{self.place}: {_first_line(error)}; open it, or give another name"
            ) from error
        except psycopg.OperationalError as error:
            raise EngineError(
                f"PostgreSQL at {self.place} cannot be reached ({_first_line(error)}); "
                "check that it runs there and that user and password fit"
            ) from error
        except psycopg.Error as error:
            raise EngineError(
                f"PostgreSQL at {self.place} refuses ({_first_line(error)}); check the rights of "
                "the user, and that pgvector 0.8 or newer is installed"
            ) from error


def place_of(url: str) -> str:
    """A server's address for messages, without its password.

    >>> place_of("postgresql://me:secret@db:5433/photos")
    'postgresql://db:5433/photos'
    """
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise OptionError(
            "the address of the database cannot be read; "
            "write postgresql://user@host:5432/database?table=name"
        ) from error
    host, port = parts.get("host") or "localhost", parts.get("port") or 5432
    return f"postgresql://{host}:{port}/{parts.get('dbname') or ''}"


def _text(statement: str | sql.Composed) -> bytes | sql.Composed:
    # psycopg's types want literal strings; bytes are how it takes one that is put together here.
    return statement.encode() if isinstance(statement, str) else statement


def _loads(content: str | bytes) -> Any:
    """jsonb writes 1e300 as a whole number of 301 digits; only floats can be as large here."""
    return json.loads(
        content, parse_int=lambda text: float(text) if abs(int(text)) > LARGEST_WHOLE else int(text)
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
