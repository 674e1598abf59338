"""Addresses: how they are read, servers that do not answer, places that hold something else."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace

import pytest
from store_support import SETTINGS, some_sets

from diverset.engines import create_store, open_or_create, open_store, store_exists
from diverset.engines.settings import from_stored, to_stored
from diverset.errors import EngineError, MissingExtraError, OptionError
from diverset.index import SetIndex


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("redis://host/x", "unknown scheme 'redis'"),
        ("qdrant://host:6333", "has no collection"),
        ("qdrant:folder", "has no collection"),
        ("qdrant://host:port/x", "cannot parse"),
        ("qdrant://host/x?candidate=3", "no option 'candidate'; it has: candidates, shards"),
        ("qdrant://host/x?candidates=many", "give a whole number"),
        ("qdrant://host/x?quantize=int3", "choose one of: none, int8, binary"),
        ("qdrant://host/x?shards=-1", "above 0"),
        ("postgresql://host/db", "has no table"),
        ("postgresql://host/db?table=t&index=ivf", "choose one of: none, hnsw"),
        ("postgresql://host/db?table=t&no_such=1", "cannot parse"),
        ("postgresql://host/db?table=t&candidates=-1", "above 0"),
    ],
)
def test_invalid_addresses_are_rejected(address, words):
    with pytest.raises(OptionError, match=words):
        store_exists(address)


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("qdrant://127.0.0.1:1/photos", "http://127.0.0.1:1"),
        ("postgresql://me:secret@127.0.0.1:1/db?table=t", "postgresql://127.0.0.1:1/db"),
    ],
)
def test_the_error_for_an_unreachable_server_hides_the_password(address, named):
    for act in (store_exists, open_store, lambda a: create_store(a, SETTINGS)):
        with pytest.raises(EngineError, match="check that it is running") as caught:
            act(address)
        assert named in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:secret@db:port/x?table=t",
        "postgresql://me:secret@db:port/x?table=t&password=secret",
        "postgresql://me:sec/ret@db/x?table=t",
        "qdrant://me:secret@db:99999999/x",
        "qdrant://me:secret@[db/x",
    ],
)
def test_the_error_for_an_invalid_address_hides_the_password(address):
    with pytest.raises(OptionError, match="cannot parse") as caught:
        open_store(address)
    assert "sec" not in str(caught.value) and caught.value.__suppress_context__


def test_options_of_libpq_reach_the_server(postgres_address):
    address = postgres_address(options="-c%20work_mem%3D1MB", application_name="my%20app")
    with closing(create_store(address, SETTINGS)) as store:
        assert store._server.fetch("SHOW work_mem") == [("1MB",)]
        assert store._server.fetch("SHOW application_name") == [("my app",)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the client's own
def test_a_local_qdrant_folder_cannot_be_opened_twice(tmp_path):
    address = f"qdrant:{tmp_path}#x"
    with closing(create_store(address, SETTINGS)):
        with pytest.raises(EngineError, match="already accessed"):
            open_store(address)


def test_a_closed_connection_raises_engine_error(postgres_address):
    address = postgres_address()
    store = create_store(address, SETTINGS)
    store.close()
    with pytest.raises(EngineError, match="cannot reach"):
        store.count()


def test_a_folder_address_opens_the_embedded_index(tmp_path):
    address = str(tmp_path / "photos")
    assert not store_exists(address)
    with closing(open_or_create(address, SETTINGS)) as made:
        made.add(["a"], some_sets(1))
    assert store_exists(address)
    with closing(open_store(address, SETTINGS.model)) as opened:
        assert isinstance(opened, SetIndex) and opened.count() == 1
    with pytest.raises(EngineError, match="photos has model feedc0de, not cafe"):
        open_store(address, "cafe")


@pytest.mark.parametrize(
    ("package", "address"),
    [("qdrant_client", "qdrant://h/x"), ("psycopg", "postgresql://h/db?table=x")],
)
def test_a_missing_package_names_its_extra(monkeypatch, package, address):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'diverset\[engines\]'"):
        open_store(address)


def test_threads_share_a_connection(postgres_address):
    with closing(create_store(postgres_address(candidates=5), SETTINGS)) as store:
        store.add([str(item) for item in range(20)], some_sets(20))
        with ThreadPoolExecutor(8) as pool:
            results = list(
                pool.map(lambda item: store.search(some_sets(20)[item][None], 1), range(20))
            )
    assert [hits[0][0].id for hits in results] == [str(item) for item in range(20)]


def test_settings_of_another_format_or_origin_are_rejected():
    assert from_stored(to_stored(SETTINGS), "x") == SETTINGS
    with pytest.raises(EngineError, match="has format 3.*update diverset"):
        from_stored({**to_stored(SETTINGS), "format": 3}, "x")
    for wrong in (None, [], {}, "text"):
        with pytest.raises(EngineError, match="not created by diverset"):
            from_stored(wrong, "x")
    for wrong in ({"format": 2}, {**to_stored(SETTINGS), "dim": 0}):
        with pytest.raises(EngineError, match="damaged"):
            from_stored(wrong, "x")


def test_a_table_of_another_format_is_rejected(postgres, postgres_address):
    from diverset.engines.postgres_server import Server

    address = postgres_address()
    create_store(address, SETTINGS).close()
    name = address.split("table=")[1]
    with closing(Server(postgres)) as server:
        newer = json.dumps({**to_stored(SETTINGS), "format": 9})
        statement = "UPDATE diverset_settings SET settings = %(to)s WHERE name = %(name)s"
        assert server.execute(statement, to=newer, name=name) == 1
        with pytest.raises(EngineError, match="has format 9"):
            open_store(address)
        server.execute("DELETE FROM diverset_settings WHERE name = %(name)s", name=name)
    with pytest.raises(EngineError, match="has no store"):
        open_store(address)
    with pytest.raises(EngineError, match="already exists; open it, or give another name"):
        create_store(address, SETTINGS)


def test_a_collection_of_another_program_is_rejected(tmp_path):
    from qdrant_client import models

    from diverset.engines.qdrant import connect_local

    with closing(connect_local(str(tmp_path))) as client:
        plain = models.VectorParams(size=3, distance=models.Distance.DOT)
        client.create_collection("foreign", vectors_config=plain)
        newer = {**to_stored(SETTINGS), "format": 9}
        client.create_collection("newer", vectors_config=plain, metadata=newer)
    with pytest.raises(EngineError, match="not created by diverset"):
        open_store(f"qdrant:{tmp_path}#foreign")
    with pytest.raises(EngineError, match="has format 9"):
        open_store(f"qdrant:{tmp_path}#newer")


def test_open_or_create_rejects_other_settings(address):
    target = address()
    open_or_create(target, SETTINGS).close()
    open_or_create(target, SETTINGS).close()
    with pytest.raises(EngineError, match="not cafe"):
        open_or_create(target, replace(SETTINGS, model="cafe"))
    with pytest.raises(EngineError, match="has alpha 16.0, not 8.0"):
        open_or_create(target, replace(SETTINGS, alpha=8.0))
