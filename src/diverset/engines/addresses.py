"""Stores by their address.

    a/folder                                        the embedded index
    qdrant://host:6333/collection                   a Qdrant server or cluster (qdrants:// for TLS)
    qdrant:a/folder#collection                      Qdrant's local engine, for tests
    postgresql://user@host:5432/database?table=name PostgreSQL with pgvector

Options of `QdrantOptions` and `PostgresOptions` follow as a query: `?candidates=200&replicas=2`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from diverset.engines.settings import check_same
from diverset.errors import OptionError, import_extra
from diverset.index.set_store import IndexSettings, SetStore
from diverset.runtime.close_on_error import close_on_error

QDRANT_PORT = 6333
SCHEMES = ("qdrant", "qdrants", "postgresql", "postgres")
Options = TypeVar("Options")


@dataclass(frozen=True)
class _Location:
    """Operations at an address; `label` names it in messages, without a password."""

    label: str
    exists: Callable[[], bool]
    open: Callable[[], SetStore]
    create: Callable[[IndexSettings], SetStore]


def open_store(address: str, model: str | None = None) -> SetStore:
    """Open an existing store; one of another model than `model`, a fingerprint, is rejected."""
    location = _locate(address)
    with close_on_error(location.open()) as store:
        if model is not None:
            check_same(replace(store.settings, model=model), store.settings, location.label)
        return store


def create_store(address: str, settings: IndexSettings) -> SetStore:
    """Create an empty store."""
    return _locate(address).create(settings)


def store_exists(address: str) -> bool:
    """Whether there is a store at an address."""
    return _locate(address).exists()


def open_or_create(address: str, settings: IndexSettings) -> SetStore:
    """Open a store with these settings, or create it."""
    location = _locate(address)
    if not location.exists():
        return location.create(settings)
    with close_on_error(location.open()) as store:
        check_same(settings, store.settings, location.label)
        return store


def is_engine(address: str) -> bool:
    """Whether an address is that of an engine, not a folder of the embedded index.

    >>> is_engine("qdrant://localhost/photos"), is_engine("photos.index")
    (True, False)
    """
    return address.split(":")[0].lower() in SCHEMES or "://" in address


def address_key(address: str) -> str:
    """An address with absolute folders: equal for equal stores."""
    if not is_engine(address):
        return str(Path(address).resolve())
    parts = _split(address)
    if parts.scheme == "qdrant" and not parts.netloc:
        return parts._replace(path=str(Path(parts.path).resolve())).geturl()
    return address


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises ValueError unless it is a number
    except ValueError:
        # Neither the user and password nor the original error, which may quote them.
        shown = re.sub(r"//.*@", "//", address, flags=re.DOTALL).split("?")[0]
        raise OptionError(
            f"cannot parse the address {shown!r}; write host:port with a port up to 65535, and "
            "special characters of a password as %40 and the like"
        ) from None
    return parts


def _locate(address: str) -> _Location:
    parts = _split(address)
    if parts.scheme in ("postgresql", "postgres"):
        return _locate_postgres(parts)
    if parts.scheme in ("qdrant", "qdrants"):
        return _locate_qdrant(parts)
    if "://" in address:
        raise OptionError(
            f"unknown scheme {parts.scheme!r}; give a folder or one of: {', '.join(SCHEMES)}"
        )
    return _locate_folder(Path(address))


def _locate_folder(folder: Path) -> _Location:
    from diverset.index.quick_checks import holds_index
    from diverset.index.set_index import SetIndex

    return _Location(
        label=str(folder),
        exists=partial(holds_index, folder),
        open=partial(SetIndex.open, folder),
        create=partial(SetIndex.create, folder),
    )


def _locate_qdrant(parts: SplitResult) -> _Location:
    import_extra("qdrant_client", "engines")
    from diverset.engines.qdrant import QdrantStore, connect, connect_local
    from diverset.engines.qdrant_options import QdrantOptions

    options = _parse_options(QdrantOptions, dict(parse_qsl(parts.query)))
    if parts.netloc:
        name = parts.path.strip("/")
        scheme = "https" if parts.scheme == "qdrants" else "http"
        server = f"{scheme}://{parts.hostname}:{parts.port or QDRANT_PORT}"
        client = partial(connect, server, os.environ.get("QDRANT_API_KEY"))
    else:
        name, server = parts.fragment, parts.path
        client = partial(connect_local, server)
    if not name or not server:
        raise OptionError(
            "the address has no collection; write qdrant://host:6333/collection or "
            "qdrant:folder#collection"
        )

    def exists() -> bool:
        with closing(client()) as opened:
            return QdrantStore.exists(opened, server, name)

    def connected(act: Callable[..., QdrantStore], *arguments: object) -> QdrantStore:
        with close_on_error(client()) as opened:
            return act(opened, server, name, *arguments, options)

    return _Location(
        label=f"{server} collection {name}",
        exists=exists,
        open=partial(connected, QdrantStore.open),
        create=partial(connected, QdrantStore.create),
    )


def _locate_postgres(parts: SplitResult) -> _Location:
    import_extra("psycopg", "engines")
    from diverset.engines.postgres import PostgresStore
    from diverset.engines.postgres_options import PostgresOptions
    from diverset.engines.postgres_server import without_password

    query = dict(parse_qsl(parts.query))
    name = query.pop("table", None)
    if not name:
        raise OptionError(
            "the address has no table; write postgresql://user@host:5432/database?table=name"
        )
    known = {field.name for field in fields(PostgresOptions)}
    options = _parse_options(PostgresOptions, {key: query.pop(key) for key in known & set(query)})
    url = parts._replace(query=urlencode(query, quote_via=quote)).geturl()  # the rest is libpq's
    return _Location(
        label=f"{without_password(url)} table {name}",
        exists=partial(PostgresStore.exists, url, name),
        open=partial(PostgresStore.open, url, name, options),
        create=lambda settings: PostgresStore.create(url, name, settings, options),
    )


def _parse_options(options: type[Options], query: dict[str, str]) -> Options:
    """Options from text, by the types of their defaults; without a default, a whole number."""
    defaults = {field.name: field.default for field in fields(options)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, text in query.items():
        if key not in defaults:
            raise OptionError(f"the address has no option {key!r}; it has: {', '.join(defaults)}")
        try:
            values[key] = text if isinstance(defaults[key], str) else int(text)
        except ValueError as error:
            raise OptionError(f"{key} is {text!r} in the address; give a whole number") from error
        if isinstance(defaults[key], bool):
            values[key] = bool(values[key])
    return options(**values)
