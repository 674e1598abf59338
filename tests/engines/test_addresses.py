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
        ("redis://host/x", "begins with redis"),
        ("qdrant://host:6333", "names no collection"),
        ("qdrant:folder", "names no collection"),
        ("qdrant://host:port/x", "cannot be read"),
        ("qdrant://host/x?candidate=3", "no option 'candidate'; it has: candidates, shards"),
        ("qdrant://host/x?candidates=many", "give a whole number"),
        ("qdrant://host/x?quantize=int3", "choose one of: none, int8, binary"),
        ("qdrant://host/x?shards=-1", "from 0 on"),
        ("postgresql://host/db", "names no table"),
        ("postgresql://host/db?table=t&index=ivf", "choose one of: none, hnsw"),
        ("postgresql://host/db?table=t&no_such=1", "cannot be read"),
        ("postgresql://host/db?table=t&candidates=-1", "from 0 on"),
    ],
)
def test_addresses_that_cannot_be_meant(address, words):
    with pytest.raises(OptionError, match=words):
        store_exists(address)


@pytest.mark.parametrize(
    ("address", "named"),
    [
        ("qdrant://127.0.0.1:1/photos", "http://127.0.0.1:1"),
        ("postgresql://me:secret@127.0.0.1:1/db?table=t", "postgresql://127.0.0.1:1/db"),
    ],
)
def test_a_server_that_is_not_there_is_named_without_the_password(address, named):
    for act in (store_exists, open_store, lambda a: create_store(a, SETTINGS)):
        with pytest.raises(EngineError, match="check that it runs there") as caught:
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
def test_an_address_that_cannot_be_read_is_shown_without_the_password(address):
    with pytest.raises(OptionError, match="cannot be read") as caught:
        open_store(address)
    assert "sec" not in str(caught.value) and caught.value.__suppress_context__


def test_options_of_libpq_reach_it_as_they_are_meant(monkeypatch):
    from psycopg.conninfo import conninfo_to_dict

    from diverset.engines.postgres import PostgresStore

    seen = []
    monkeypatch.setattr(PostgresStore, "exists", lambda url, name: seen.append(url))
    store_exists("postgresql://db/x?table=t&options=-c%20work_mem%3D1MB&application_name=my%20app")
    given = conninfo_to_dict(seen[0])
    assert (given["options"], given["application_name"]) == ("-c work_mem=1MB", "my app")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the client's own
def test_a_folder_that_another_process_holds(tmp_path):
    place = f"qdrant:{tmp_path}#x"
    with closing(create_store(place, SETTINGS)):
        with pytest.raises(EngineError, match="already accessed"):
            open_store(place)


def test_a_connection_that_breaks_is_an_error_of_ours(postgres_address):
    place = postgres_address()
    store = create_store(place, SETTINGS)
    store.close()
    with pytest.raises(EngineError, match="cannot be reached"):
        store.count()


def test_a_folder_is_the_embedded_index(tmp_path):
    place = str(tmp_path / "photos")
    assert not store_exists(place)
    with closing(open_or_create(place, SETTINGS)) as made:
        made.add(["a"], some_sets(1))
    assert store_exists(place)
    with closing(open_store(place, SETTINGS.model)) as opened:
        assert isinstance(opened, SetIndex) and opened.count() == 1
    with pytest.raises(EngineError, match="photos holds sets of model feedc0de, not of cafe"):
        open_store(place, "cafe")


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
            found = list(
                pool.map(lambda item: store.search(some_sets(20)[item][None], 1), range(20))
            )
    assert [hits[0][0].id for hits in found] == [str(item) for item in range(20)]


def test_stored_settings():
    assert from_stored(to_stored(SETTINGS), "x") == SETTINGS
    with pytest.raises(EngineError, match="has format 2.*update diverset"):
        from_stored({**to_stored(SETTINGS), "format": 2}, "x")
    for wrong in (None, [], {}, "text"):
        with pytest.raises(EngineError, match="not made by diverset"):
            from_stored(wrong, "x")
    for wrong in ({"format": 1}, {**to_stored(SETTINGS), "dim": 0}):
        with pytest.raises(EngineError, match="damaged"):
            from_stored(wrong, "x")


def test_a_table_of_a_newer_or_of_no_version(postgres, postgres_address):
    from diverset.engines.postgres_server import Server

    place = postgres_address()
    create_store(place, SETTINGS).close()
    name = place.split("table=")[1]
    with closing(Server(postgres)) as server:
        newer = json.dumps({**to_stored(SETTINGS), "format": 9})
        statement = "UPDATE diverset_settings SET settings = %(to)s WHERE name = %(name)s"
        assert server.tell(statement, to=newer, name=name) == 1
        with pytest.raises(EngineError, match="has format 9"):
            open_store(place)
        server.tell("DELETE FROM diverset_settings WHERE name = %(name)s", name=name)
    with pytest.raises(EngineError, match="has no index"):
        open_store(place)
    with pytest.raises(EngineError, match="already exists; open it, or give another name"):
        create_store(place, SETTINGS)


def test_a_collection_of_something_else(tmp_path):
    from qdrant_client import models

    from diverset.engines.qdrant import connect_locally

    with closing(connect_locally(str(tmp_path))) as client:
        plain = models.VectorParams(size=3, distance=models.Distance.DOT)
        client.create_collection("foreign", vectors_config=plain)
        newer = {**to_stored(SETTINGS), "format": 9}
        client.create_collection("newer", vectors_config=plain, metadata=newer)
    with pytest.raises(EngineError, match="not made by diverset"):
        open_store(f"qdrant:{tmp_path}#foreign")
    with pytest.raises(EngineError, match="has format 9"):
        open_store(f"qdrant:{tmp_path}#newer")


def test_open_or_create_refuses_other_settings(address):
    place = address()
    open_or_create(place, SETTINGS).close()
    open_or_create(place, SETTINGS).close()
    with pytest.raises(EngineError, match="not of cafe"):
        open_or_create(place, replace(SETTINGS, model="cafe"))
    with pytest.raises(EngineError, match="has alpha 16.0, not 8.0"):
        open_or_create(place, replace(SETTINGS, alpha=8.0))
