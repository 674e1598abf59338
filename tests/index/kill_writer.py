"""Kills a writer again and again, and looks at what it left; run by test_crashes.

A child adds, replaces, deletes, compacts and searches without end. It writes a line before each
call and one after; it is killed by SIGKILL at a random moment. Whatever was acknowledged must then
be there, and the call that was under way must have happened wholly or not at all.
"""

import json
import os
import random
import signal
import sys
import time

import numpy as np
import torch
from index.index_support import SETTINGS, make_sets

from diverset.index import SetIndex, segment_writer

State = dict[str, int]  # id -> version


def write_without_end(folder: str, pipe: int, turn: int) -> None:
    rng = random.Random(turn)
    with SetIndex.open(folder) as index:
        for version in range(turn * 10**6, (turn + 1) * 10**6):
            kind = rng.choices(["add", "delete", "compact"], [6, 3, 1])[0]
            ids = [f"id{n}" for n in rng.sample(range(120), rng.randint(1, 40))]
            call = json.dumps({"kind": kind, "ids": ids, "version": version})
            os.write(pipe, f"{call}\n".encode())
            if kind == "add":
                index.add(ids, versions([version] * len(ids)), [{"version": version}] * len(ids))
            elif kind == "delete":
                index.delete(ids)
            else:
                index.compact()
            os.write(pipe, b"done\n")
            if rng.random() < 0.3:
                index.search(make_sets(1, seed=1), k=500)


def versions(numbers: list[int]) -> np.ndarray:
    return np.concatenate([make_sets(1, seed=number) for number in numbers])


def after(state: State, call: dict) -> State:
    if call["kind"] == "add":
        return {**state, **dict.fromkeys(call["ids"], call["version"])}
    gone = call["ids"] if call["kind"] == "delete" else []
    return {item: version for item, version in state.items() if item not in gone}


def check(folder: str, possible: list[State]) -> State:
    with SetIndex.open(folder) as index:
        assert index.verify() == [], index.verify()
        state = {}
        for part in index.walk(50):
            stored = [int(metadata["version"]) for metadata in part.metadata]
            assert np.array_equal(part.sets, versions(stored))
            state.update(zip(part.ids, stored, strict=True))
        assert state in possible, "neither before nor after the last call"
        assert index.count() == len(state)
        hits = index.search(make_sets(1, seed=-1 % 2**32), k=500)[0]
        assert {hit.id for hit in hits} == set(state)
    return state


def main(folder: str, kills: int) -> None:
    torch.set_num_threads(1)
    segment_writer.FLUSH_SIZE, segment_writer.MERGE_COUNT = 16, 2  # frequent writes and merges
    segment_writer.MAX_SEGMENT_ITEMS = 64
    SetIndex.create(folder, SETTINGS).close()
    state: State = {}
    acknowledged = 0
    rng = random.Random(0)
    for turn in range(kills):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            write_without_end(folder, writing, turn)
        os.close(writing)
        time.sleep(rng.uniform(0.005, 0.35))
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "the writer failed by itself"
        with os.fdopen(reading) as lines:
            output = lines.read().split("\n")[:-1]
        under_way = None
        for line in output:
            if line == "done":
                state, under_way = after(state, under_way), None
                acknowledged += 1
            else:
                under_way = json.loads(line)
        state = check(folder, [state, after(state, under_way)] if under_way else [state])
    print(json.dumps({"kills": kills, "acknowledged": acknowledged, "items": len(state)}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
