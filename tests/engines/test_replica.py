"""PostgreSQL with a replica: it answers as the primary does, also after the primary is lost."""

import os
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from engines.replica_support import ReplicatedPostgres
from store_support import SETTINGS, some_sets

from diverset.engines import create_store, open_store
from diverset.errors import EngineError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(os.environ.get("DIVERSET_POSTGRES")) or sys.platform == "win32",
        reason="starts and kills servers of its own",
    ),
]
SETS = some_sets(60)
IDS = [f"item {number:02d}" for number in range(60)]


@pytest.fixture
def servers():
    # Not below pytest's own folder: as root, servers run as another user, who must not lose access
    # to it when a second session of pytest starts.
    with (
        tempfile.TemporaryDirectory(prefix="replica") as folder,
        closing(ReplicatedPostgres(Path(folder))) as started,
    ):
        yield started


def wait_for(count: int, address: str) -> None:
    deadline = time.monotonic() + 60
    with closing(open_store(address)) as store:
        while store.count() != count:
            assert time.monotonic() < deadline, f"the replica has {store.count()} of {count} items"
            time.sleep(0.1)


def hits(address: str) -> list[tuple[str, float]]:
    with closing(open_store(address, model=SETTINGS.model)) as store:
        return [(hit.id, hit.score) for hit in store.search(some_sets(1, seed=5), k=10)[0]]


def test_replica_answers_and_takes_over(servers):
    with closing(create_store(servers.address("primary"), SETTINGS)) as store:
        store.add(IDS[:40], SETS[:40])
        servers.start_replica()
        store.add(IDS[40:], SETS[40:])  # streamed, not copied
        wait_for(60, servers.address("replica"))
        expected = hits(servers.address("primary"))
        assert hits(servers.address("replica")) == expected
        with (
            closing(open_store(servers.address("replica"))) as replica,
            pytest.raises(EngineError, match="read-only"),
        ):
            replica.add(["new"], SETS[:1])

        servers.kill_primary()
        with pytest.raises(EngineError, match="check that it is running"):
            store.count()  # a lost connection is an error; open the store again
    assert hits(servers.address("both")) == expected

    servers.promote_replica()
    writable = servers.address("both", target_session_attrs="read-write")
    with closing(open_store(writable)) as store:
        store.add(["new"], SETS[:1])
        assert store.count() == 61
