"""One process writes, two search at the same time; run by test_crashes.

Ids come in groups that are always added and deleted transaction, so that an answer that mixes two
states shows: a group is there completely and of one version, or not at all.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable

import torch
from index.index_support import SETTINGS, make_sets

from diverset.index import SetIndex, segment_writer

GROUPS, TOGETHER = 12, 10


def write(folder: str, end: float) -> int:
    rng, calls = random.Random(0), 0
    with SetIndex.open(folder) as index:
        while time.time() < end:
            calls += 1
            group = rng.randrange(GROUPS)
            ids = [f"{group}-{n}" for n in range(TOGETHER)]
            kind = rng.choices(["add", "delete", "compact"], [4, 3, 3])[0]
            if kind == "add":
                index.add(ids, make_sets(TOGETHER, seed=calls), [{"version": calls}] * TOGETHER)
            elif kind == "delete":
                index.delete(ids)
            else:
                index.compact()
    return calls


def read(folder: str, end: float) -> int:
    calls = 0
    with SetIndex.open(folder) as index:
        while time.time() < end:
            calls += 1
            groups: dict[str, list[int]] = {}
            hits = index.search(make_sets(1, seed=1), k=500)[0]
            assert len({hit.id for hit in hits}) == len(hits)
            for hit in hits:
                groups.setdefault(hit.id.split("-")[0], []).append(hit.metadata["version"])
            for versions in groups.values():
                assert len(versions) == TOGETHER and len(set(versions)) == 1, groups
    return calls


def started(work: Callable[[str, float], int], folder: str, end: float) -> tuple[int, int]:
    """A child that does the work, and where it says how many calls it made."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, str(work(folder, end)).encode())
        os._exit(0)
    os.close(writing)
    return child, reading


def main(folder: str, seconds: float) -> None:
    torch.set_num_threads(1)
    segment_writer.FLUSH_SIZE, segment_writer.MERGE_COUNT = 16, 2  # frequent writes and merges
    segment_writer.MAX_SEGMENT_ITEMS = 64
    SetIndex.create(folder, SETTINGS).close()
    end = time.time() + seconds
    children = [started(work, folder, end) for work in (write, read, read)]
    codes = [os.waitpid(child, 0)[1] for child, _ in children]
    assert codes == [0, 0, 0], "a process failed"
    with SetIndex.open(folder) as index:
        assert index.verify() == []
    print(json.dumps([int(os.read(pipe, 100)) for _, pipe in children]))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
