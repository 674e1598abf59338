"""A connection to PostgreSQL. Its errors name the server and the next step, never a password."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import pgvector.psycopg
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_loads

from diverset.errors import EngineError, OptionError
from diverset.index.filter_language import MAX_INTEGER

TIMEOUT = 10  # seconds to wait for a connection


class Server:
    """A connection that commits every statement, except inside `transaction`.

    Threads may share it; their calls run one after the other.
    """

    def __init__(self, url: str) -> None:
        """Connect; `url` is anything that libpq accepts."""
        self.label = without_password(url)
        self._lock = RLock()  # the driver locks statements, not transactions
        with self._translate_errors():
            self.connection = psycopg.connect(url, autocommit=True, connect_timeout=TIMEOUT)
        set_json_loads(_loads, self.connection)

    def fetch(self, statement: str | sql.Composed, **values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        with self._translate_errors():
            cursor = self.connection.execute(_encode(statement), values, binary=True)
            return cursor.fetchall() if cursor.description else []

    def execute(self, statement: str | sql.Composed, **values: Any) -> int:
        """Run a statement; returns the number of changed rows."""
        with self._translate_errors():
            return self.connection.execute(_encode(statement), values).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Statements that take effect together or not at all."""
        with self._translate_errors(), self.connection.transaction():
            yield

    def register_vector(self) -> None:
        """Send numpy arrays as pgvector's type, and receive it as `pgvector.Vector`."""
        try:
            with self._lock:
                pgvector.psycopg.register_vector(self.connection)
        except psycopg.ProgrammingError as error:
            raise EngineError(
                f"{self.label} has no extension vector; run CREATE EXTENSION vector"
            ) from error

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        except psycopg.errors.DuplicateTable as error:
            raise EngineError(
                f"{self.label}: {_first_line(error)}; open it, or give another name"
            ) from error
        except psycopg.OperationalError as error:
            raise EngineError(
                f"cannot reach PostgreSQL at {self.label} ({_first_line(error)}); check that it is "
                "running and that user and password are right"
            ) from error
        except psycopg.Error as error:
            raise EngineError(
                f"PostgreSQL at {self.label} failed ({_first_line(error)}); check the permissions "
                "of the user, and that pgvector 0.8 or newer is installed"
            ) from error


def without_password(url: str) -> str:
    """A server's address for messages, without user and password.

    >>> without_password("postgresql://me:secret@db:5433/photos")
    'postgresql://db:5433/photos'
    """
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise OptionError(
            "cannot parse the address of the database; "
            "write postgresql://user@host:5432/database?table=name"
        ) from error
    host, port = parts.get("host") or "localhost", parts.get("port") or 5432
    return f"postgresql://{host}:{port}/{parts.get('dbname') or ''}"


def _encode(statement: str | sql.Composed) -> bytes | sql.Composed:
    # psycopg's types require literal strings; bytes may be composed at run time.
    return statement.encode() if isinstance(statement, str) else statement


def _loads(content: str | bytes) -> Any:
    """jsonb writes 1e300 as an integer of 301 digits; stored integers are never that large."""
    return json.loads(
        content, parse_int=lambda text: float(text) if abs(int(text)) > MAX_INTEGER else int(text)
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
