"""What survives kill -9, and what readers see while another process writes."""

import json
import os
import subprocess
import sys
import threading

import pytest
from index.index_support import make_index, make_sets

from diverset.index import SetIndex, segment_writer, segments


@pytest.mark.slow
def test_acknowledged_writes_survive_kill_9(tmp_path):
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-m", "index.kill_writer", str(tmp_path / "index"), "52"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["kills"] == 52
    assert report["acknowledged"] > 52


@pytest.mark.parametrize("remaining", [0, 5])
def test_deleted_items_stay_deleted_after_compact(tmp_path, remaining):
    with make_index(tmp_path, remaining) as writer, SetIndex.open(writer.folder) as reader:
        writer.compact()
        writer.add(["a", "b"], make_sets(2, seed=1))
        for index in (writer, reader):
            assert len(index.search(make_sets(1), k=9)[0]) == remaining + 2  # quantized in memory
        writer.delete(["a", "b"])
        writer.compact()
        for index in (writer, reader):
            assert len(index.search(make_sets(1), k=9)[0]) == remaining
        writer.add(["new"], make_sets(1, seed=2))
        for index in (writer, reader):
            assert len(index.search(make_sets(1), k=9)[0]) == remaining + 1


@pytest.mark.slow
def test_readers_see_consistent_states_while_a_process_writes(tmp_path):
    """Every answer is one moment: each of a batch is there, of one version, or none is."""
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-m", "index.concurrent_reads", str(tmp_path / "index"), "3"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert all(count > 0 for count in json.loads(done.stdout)), done.stdout


def test_readers_see_writes_of_another_connection(tmp_path, monkeypatch):
    monkeypatch.setattr(segment_writer, "FLUSH_SIZE", 8)
    with make_index(tmp_path, 5) as writer, SetIndex.open(writer.folder) as reader:
        for turn in range(12):
            ids = [f"turn{turn}-{n}" for n in range(3)]
            writer.add(ids, make_sets(3, seed=100 + turn))
            hits = reader.search(make_sets(3, seed=100 + turn), k=1)
            assert [result[0].id for result in hits] == ids
            if turn % 4 == 3:
                writer.compact()
            assert reader.count() == writer.count() == 5 + 3 * (turn + 1)
        writer.delete(["turn3-1"])
        remaining = reader.search(make_sets(3, seed=103), k=100)[1]
        assert "turn3-1" not in {hit.id for hit in remaining}
        assert len(remaining) == 40
        assert reader.verify() == writer.verify() == []


def test_threads_share_an_index(tmp_path):
    with make_index(tmp_path, 50) as index:
        expected = [hit.id for hit in index.search(make_sets(1))[0]]
        wrong: list[object] = []

        def work(number: int) -> None:
            for turn in range(5):
                far = -make_sets(1)  # never among the best
                index.add([f"{number}-{turn}"], far)
                ids = [hit.id for hit in index.search(make_sets(1))[0]]
                if ids != expected:
                    wrong.append(ids)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert index.count() == 70


def test_walk_returns_all_items_ordered_by_id(tmp_path):
    with make_index(tmp_path, 25) as index:
        parts = list(index.walk(10))
        assert [len(part.ids) for part in parts] == [10, 10, 5]
        ids = [item for part in parts for item in part.ids]
        assert ids == sorted(f"id{n}" for n in range(25))
        for item, stored in zip(ids, (row for part in parts for row in part.sets), strict=True):
            assert (stored == make_sets(25)[int(item[2:])]).all()


def test_compact_frees_the_space_of_deleted_items(tmp_path):
    with make_index(tmp_path, 2000) as index:
        index.compact()
        before = sum(file.stat().st_size for file in index.folder.iterdir())
        index.delete([f"id{n}" for n in range(1900)])
        index.compact()
        assert index.count() == 100
        assert sum(file.stat().st_size for file in index.folder.iterdir()) < before / 3
        assert len(list(index.folder.glob("*.codes"))) == 1


def test_a_segment_deleted_while_it_is_opened_is_requantized(tmp_path, monkeypatch):
    with make_index(tmp_path, 20) as writer, SetIndex.open(writer.folder) as reader:
        writer.compact()

        def swept(*_, **__):
            raise RuntimeError("unable to open file in read-only mode: No such file")  # torch's

        monkeypatch.setattr(segments, "safe_open", swept)
        assert len(reader.search(make_sets(1), k=50)[0]) == 20
