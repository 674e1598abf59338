"""Stores by their address.

    a/folder                                        the embedded index
    qdrant://host:6333/collection                   a Qdrant server or cluster (qdrants:// for TLS)
    qdrant:a/folder#collection                      Qdrant's local engine, for trials
    postgresql://user@host:5432/database?table=name PostgreSQL with pgvector

Options of `QdrantOptions` and `PostgresOptions` follow as a query: `?candidates=200&replicas=2`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit

from diverset.engines.settings import check_model, check_same
from diverset.errors import OptionError, import_extra
from diverset.index.base import SetStore, Settings

QDRANT_PORT = 6333
SECONDS = 60  # to wait for an answer of Qdrant
SCHEMES = ("qdrant", "qdrants", "postgresql", "postgres")
Options = TypeVar("Options")


@dataclass(frozen=True)
class _Store:
    """What can be done at an address."""

    place: str
    exists: Callable[[], bool]
    open: Callable[[], SetStore]
    create: Callable[[Settings], SetStore]


def open_store(address: str, model: str = "") -> SetStore:
    """Open a store that exists; with the fingerprint of a model, only if it holds its sets."""
    found = _resolve(address)
    with ExitStack() as stack:
        store = stack.enter_context(closing(found.open()))
        check_model(model, store.settings, found.place)
        stack.pop_all()  # all went well: it stays open
    return store


def create_store(address: str, settings: Settings) -> SetStore:
    """Make a new, empty store."""
    return _resolve(address).create(settings)


def store_exists(address: str) -> bool:
    """Whether there is a store at an address."""
    return _resolve(address).exists()


def open_or_create(address: str, settings: Settings) -> SetStore:
    """Open a store that holds sets of these settings, or make it."""
    found = _resolve(address)
    if not found.exists():
        return found.create(settings)
    with ExitStack() as stack:
        store = stack.enter_context(closing(found.open()))
        check_same(settings, store.settings, found.place)
        stack.pop_all()
    return store


def is_engine(address: str) -> bool:
    """Whether an address is that of an engine, not a folder of the embedded index.

    >>> is_engine("qdrant://localhost/photos"), is_engine("photos.index")
    (True, False)
    """
    return address.split(":")[0].lower() in SCHEMES or "://" in address


def address_key(address: str) -> str:
    """What tells stores apart: the address, with folders as seen from everywhere."""
    if not is_engine(address):
        return str(Path(address).resolve())
    parts = _split(address)
    if parts.scheme == "qdrant" and not parts.netloc:
        return parts._replace(path=str(Path(parts.path).resolve())).geturl()
    return address


def _split(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises where it is no number
    except ValueError:
        # Neither user and password nor the error, which may quote a part of them.
        shown = re.sub(r"//.*@", "//", address, flags=re.DOTALL).split("?")[0]
        raise OptionError(
            f"the address {shown!r} cannot be read; write host:port with a port up to 65535, and "
            "special characters of a password as %40 and the like"
        ) from None
    return parts


def _resolve(address: str) -> _Store:
    parts = _split(address)
    if parts.scheme in ("postgresql", "postgres"):
        return _postgres(parts)
    if parts.scheme in ("qdrant", "qdrants"):
        return _qdrant(parts)
    if "://" in address:
        raise OptionError(
            f"the address begins with {parts.scheme}; give a folder or one of: {', '.join(SCHEMES)}"
        )
    return _embedded(Path(address))


def _embedded(folder: Path) -> _Store:
    from diverset.index.embedded import SetIndex
    from diverset.index.truth import holds_index

    return _Store(
        place=str(folder),
        exists=partial(holds_index, folder),
        open=partial(SetIndex.open, folder),
        create=partial(SetIndex.create, folder),
    )


def _qdrant(parts: SplitResult) -> _Store:
    import_extra("qdrant_client", "engines")
    from diverset.engines.qdrant import QdrantStore, connect, connect_locally
    from diverset.engines.qdrant_options import QdrantOptions

    options = _options(QdrantOptions, dict(parse_qsl(parts.query)))
    if parts.netloc:
        name = parts.path.strip("/")
        scheme = "https" if parts.scheme == "qdrants" else "http"
        url = f"{scheme}://{parts.hostname}:{parts.port or QDRANT_PORT}"
        client = partial(connect, url, os.environ.get("QDRANT_API_KEY"), SECONDS)
        place = url
    else:
        name, place = parts.fragment, parts.path
        client = partial(connect_locally, place)
    if not name or not place:
        raise OptionError(
            "the address names no collection; write qdrant://host:6333/collection or "
            "qdrant:folder#collection"
        )

    def exists() -> bool:
        with closing(client()) as opened:
            return QdrantStore.exists(opened, place, name)

    def connected(make: Callable[..., QdrantStore], *settings: Settings) -> QdrantStore:
        with ExitStack() as stack:
            store = make(stack.enter_context(closing(client())), place, name, *settings, options)
            stack.pop_all()
        return store

    return _Store(
        place=f"{place} collection {name}",
        exists=exists,
        open=lambda: connected(QdrantStore.open),
        create=lambda settings: connected(QdrantStore.create, settings),
    )


def _postgres(parts: SplitResult) -> _Store:
    import_extra("psycopg", "engines")
    from diverset.engines.postgres import PostgresStore
    from diverset.engines.postgres_options import PostgresOptions
    from diverset.engines.postgres_server import place_of

    given = dict(parse_qsl(parts.query))
    name = given.pop("table", "")
    if not name:
        raise OptionError(
            "the address names no table; write postgresql://user@host:5432/database?table=name"
        )
    own = {field.name for field in fields(PostgresOptions)}
    options = _options(PostgresOptions, {key: one for key, one in given.items() if key in own})
    rest = {key: one for key, one in given.items() if key not in own}  # libpq's
    url = parts._replace(query=urlencode(rest, quote_via=quote)).geturl()
    return _Store(
        place=f"{place_of(url)} table {name}",
        exists=partial(PostgresStore.exists, url, name),
        open=partial(PostgresStore.open, url, name, options),
        create=lambda settings: PostgresStore.create(url, name, settings, options),
    )


def _options(kind: type[Options], given: dict[str, str]) -> Options:
    """Options from text, by the kinds of their defaults."""
    known = {field.name: field.default for field in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, text in given.items():
        if key not in known:
            raise OptionError(f"the address has no option {key!r}; it has: {', '.join(known)}")
        try:
            values[key] = text if isinstance(known[key], str) else int(text)
        except ValueError as error:
            raise OptionError(f"{key} is {text!r} in the address; give a whole number") from error
        if isinstance(known[key], bool):
            values[key] = bool(values[key])
    return kind(**values)
