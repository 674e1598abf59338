"""Kills indexing, snapshots, restores and copies again and again; run by test_kills.

A child process does one of them and is killed by SIGKILL at a random moment. Then the library must
be intact, and be what it was before or after; an interrupted index run or copy is finished by the
next one.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import torch
from photos.library_support import make_image, make_images, make_model

from diverset.engines.command import copy
from diverset.index import SetIndex, segment_writer
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.photos.library.snapshot import restore, snapshot
from diverset.photos.library.verification import find_problems

Content = dict[str, bytes]


def kill_at_random(work: Callable[[], object], rng: random.Random, longest: float) -> bool:
    """Run `work` in a child that is killed after up to `longest` seconds; False if it was done."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    time.sleep(rng.uniform(0, longest))
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed by itself"
    return os.WIFSIGNALED(status)


def finish(work: Callable[[], object]) -> float:
    """Run `work` in a child to its end; returns the seconds that it took."""
    start, child = time.monotonic(), os.fork()
    if child == 0:
        work()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    return time.monotonic() - start


def content(folder: Path) -> Content:
    """Sets by path; the library must be intact."""
    problems = [line for line in find_problems(folder) if "belongs to no catalog" not in line]
    assert not problems, problems
    with Library.open(folder) as library:
        return stored(library.images)


def stored(index: SetIndex) -> Content:
    parts = index.walk(100)
    return {
        id_: data.tobytes() for part in parts for id_, data in zip(part.ids, part.sets, strict=True)
    }


def kill_indexing(folder: Path, kills: int, rng: random.Random) -> int:
    photos = make_images(folder / "photos", 4)
    model = make_model(folder / "model")

    def index() -> None:
        with Library.open_or_create(folder / "lib", model) as library, library.indexing_lock():
            index_folders(library, [photos], workers=1, batch=2)

    seconds, killed, turn = finish(index), 0, 0
    while killed < kills:
        turn += 1
        for number in range(4):
            make_image(photos / f"{turn % 5}-{number}.png", 10 * turn + number)
        (photos / f"{(turn + 2) % 5}-1.png").unlink(missing_ok=True)
        before = content(folder / "lib")
        killed += kill_at_random(index, rng, 0.9 * seconds)
        after = content(folder / "lib")
        lost = [path for path in before if path not in after and os.path.exists(path)]
        assert not lost, lost
    finish(index)
    on_disk = {str(path) for path in photos.iterdir()}
    assert content(folder / "lib").keys() == on_disk
    return killed


def kill_snapshots(folder: Path, kills: int, rng: random.Random) -> int:
    expected, killed = content(folder / "lib"), 0

    def take(target: Path) -> None:
        with Library.open(folder / "lib") as library:
            snapshot(library, target)

    seconds = finish(lambda: take(folder / "first"))
    target = folder / "snapshot"
    while killed < kills:
        killed += kill_at_random(lambda: take(target), rng, 0.9 * seconds)
        assert not target.exists() or content(target) == expected
        assert content(folder / "lib") == expected
        shutil.rmtree(target, ignore_errors=True)
    return killed


def kill_restores(folder: Path, kills: int, rng: random.Random) -> int:
    with Library.open_or_create(folder / "lib") as library, library.indexing_lock():
        first = sorted(library.images.ids())[:3]
        library.images.delete(first)
        library.catalog.remove_files(first)
        snapshot(library, folder / "second")
    states = {name: content(folder / name) for name in ("first", "second")}
    current, killed = "second", 0
    seconds = finish(lambda: restore(folder / "second", folder / "lib"))
    while killed < kills:
        other = "first" if current == "second" else "second"
        work = lambda name=other: restore(folder / name, folder / "lib")  # noqa: E731
        killed += kill_at_random(work, rng, 0.9 * seconds)
        found = content(folder / "lib")
        assert found in states.values(), "neither before nor after the restore"
        current = next(name for name, state in states.items() if state == found)
    return killed


def kill_copies(folder: Path, kills: int, rng: random.Random) -> int:
    with Library.open(folder / "lib") as library:
        source = str(library.images.folder)
        expected = stored(library.images)
    measured = Namespace(source=source, target=str(folder / "copied"))
    seconds, killed = finish(lambda: copy(measured)), 0
    target = str(folder / "copy")
    args = Namespace(source=source, target=target)
    while killed < kills:
        killed += kill_at_random(lambda: copy(args), rng, 0.9 * seconds)
        finish(lambda: copy(args))
        with SetIndex.open(target) as index:
            assert index.verify() == []
            assert stored(index) == expected
        shutil.rmtree(target)
    return killed


def main(folder: Path, kills: int) -> None:
    torch.set_num_threads(1)
    segment_writer.FLUSH_SIZE = 8
    os.environ["XDG_DATA_HOME"] = str(folder)  # journals of copies
    sys.stdout, output = sys.stderr, sys.stdout
    report = {}
    for work in (kill_indexing, kill_snapshots, kill_restores, kill_copies):
        report[work.__name__] = work(folder, kills, random.Random(0))
    print(json.dumps({"kills": kills, **report}), file=output)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
