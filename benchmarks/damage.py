"""Damages the files of an index and of a photo library at random, and looks at every answer.

    python benchmarks/damage.py --count 500

Each trial copies a good folder, damages one file of it (a flipped bit, a zeroed page, a truncation
or a deletion), asks it everything it can answer, verifies it and repairs it. An answer may differ
from that of the good folder only if the call raises an error; verify must name every damage; after
a repair the answers are those of the good folder, or of one without the items that were removed,
and adding these again gives the answers of the good folder. The last line is JSON; the exit code is
1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from diverset.errors import DiversetError
from diverset.index import IndexSettings, SetIndex, segment_writer
from diverset.index.repair import repair
from diverset.index.verify import verify_folder
from diverset.photos.library.catalog import INDEXED, SKIPPED, FileRecord, TextTable, text_id
from diverset.photos.library.library import Library
from diverset.photos.library.quick_repair import quick_repair
from diverset.photos.library.verification import find_problems, repair_library

SETTINGS = IndexSettings(model="model", elements=3, dim=32)
PAGE = 4096
ITEMS = 300
REMOVED = "named; damaged items removed, equal after adding them again"
TO_INDEX = "named; a part is lost, equal after indexing again"
CHOSEN = {"sample"}  # random items, chosen by their row numbers
Answers = dict[str, Any]


def make_sets(count: int, seed: int) -> np.ndarray:
    sets = np.random.default_rng(seed).normal(size=(count, 3, 32))
    return (sets / np.linalg.norm(sets, axis=2, keepdims=True)).astype(np.float32)


def build_index(folder: Path) -> None:
    """An index with segments, unflushed and deleted items, and metadata of three kinds."""
    segment_writer.FLUSH_SIZE = 64
    with SetIndex.create(folder, SETTINGS) as index:
        for start in range(0, ITEMS, 30):
            ids = [f"item {number}" for number in range(start, start + 30)]
            metadata = [
                {
                    "year": 2000 + number % 20,
                    "place": f"place {number % 7}",
                    "kept": number % 2 == 0,
                }
                for number in range(start, start + 30)
            ]
            index.add(ids, make_sets(30, seed=start), metadata)
        index.delete([f"item {number}" for number in range(0, ITEMS, 11)])


def damage(file: Path, kind: str, rng: random.Random) -> None:
    """Damage one file in place."""
    size = file.stat().st_size
    if kind == "delete" or not size:
        file.unlink()
    elif kind == "truncate":
        os.truncate(file, rng.randrange(size))
    else:
        position = rng.randrange(size)
        with open(file, "rb+") as opened:
            if kind == "zero page":
                start = position // PAGE * PAGE
                opened.seek(start)
                opened.write(bytes(min(PAGE, size - start)))
            else:
                opened.seek(position)
                [byte] = opened.read(1)
                opened.seek(position)
                opened.write(bytes([byte ^ (1 << rng.randrange(8))]))


@cache
def _expected(answers: Callable[[Path], Answers], good: Path) -> Answers:
    return answers(good)


def ask(call: Callable[[], Any]) -> Any:
    """The answer of a call, or None if it raises an error of diverset."""
    try:
        return call()
    except DiversetError:
        return None


def index_answers(folder: Path) -> Answers:
    """Every kind of answer of an index; None where it raises an error."""
    index = ask(lambda: SetIndex.open(folder))
    if index is None:
        return {}
    queries = make_sets(20, seed=-1 % 2**32)
    ids = [f"item {number}" for number in range(0, ITEMS, 7)]
    with index:
        calls: dict[str, Callable[[], Any]] = {
            "search": lambda: _hits(index.search(queries, k=10)),
            "everything": lambda: _hits(index.search(queries[:1], k=ITEMS)),
            "filter": lambda: _hits(index.search(queries, k=5, filter="year >= 2010")),
            "not": lambda: _hits(index.search(queries, k=5, filter="not place = 'place 3'")),
            "search_by": lambda: _hits([index.search_by(queries[0], _mean_cosine, k=20)]),
            "get": lambda: _records([index.get(ids)]),
            "walk": lambda: _records(index.walk(50)),
            "sample": lambda: index.sample(20).tobytes(),
            "count": lambda: (index.count(), index.count("kept = true")),
            "fields": index.fields,
        }
        return {name: ask(call) for name, call in calls.items()}


def _mean_cosine(cosines: np.ndarray) -> np.ndarray:
    return np.asarray(cosines.mean(axis=(1, 2)))


def _hits(rows: Any) -> list[Any]:
    return [[(hit.id, hit.score, dict(hit.metadata)) for hit in hits] for hits in rows]


def _records(parts: Any) -> list[Any]:
    return [(part.ids, part.sets.tobytes(), part.metadata) for part in parts]


def trial_index(good: Path, folder: Path, kind: str, rng: random.Random) -> str:
    """One damage of an index; returns what happened, starting with WRONG if it must not."""
    expected = _expected(index_answers, good)
    shutil.copytree(good, folder)
    files = sorted(file for file in folder.iterdir() if file.is_file())
    database = folder / "items.sqlite"
    file = rng.choice([*files, *[database] * len(files)])  # half of the damages: the only copy
    damage(file, kind, rng)
    try:
        named = verify_folder(folder)
    except DiversetError as error:  # there is no database any more
        named = [str(error)]
    copy = folder.with_name("asked")
    shutil.copytree(folder, copy)
    answers = index_answers(copy)
    given = {name: value for name, value in answers.items() if value is not None}
    wrong = [name for name, value in given.items() if value != expected[name]]
    shutil.rmtree(copy)
    if wrong:
        return f"WRONG answers to {', '.join(wrong)} ({kind} of {file.name})"
    if not named:
        return f"WRONG: verify names nothing ({kind} of {file.name})"
    if not database.exists():
        return "named; the only copy is lost"
    repaired = ask(lambda: repair(folder, SETTINGS))
    if repaired is None:
        return f"WRONG: cannot be repaired ({kind} of {file.name}): {named}"
    outcome = _compare_repaired(folder, expected, f"{kind} of {file.name}")
    if outcome == REMOVED:
        _add_again(good, folder)
        if any(index_answers(folder)[name] != expected[name] for name in expected.keys() - CHOSEN):
            return f"WRONG answers after adding the removed items again ({kind} of {file.name})"
    return outcome


def _add_again(good: Path, folder: Path) -> None:
    """Add the items that a repair removed."""
    with SetIndex.open(good) as source, SetIndex.open(folder) as index:
        kept = set(index.ids())
        lost = source.get([id_ for id_ in source.ids() if id_ not in kept])
        index.add(lost.ids, lost.sets, lost.metadata)


def _compare_repaired(folder: Path, expected: Answers, what: str) -> str:
    if problems := verify_folder(folder):
        return f"WRONG: problems after the repair ({what}): {problems}"
    answers = index_answers(folder)
    if answers == expected:
        return "named and repaired"
    good = {hit[0]: hit for hit in expected["everything"][0]}
    kept = answers["everything"][0]
    if kept is None or any(good.get(hit[0]) != hit for hit in kept):
        return f"WRONG answers after the repair ({what})"
    return REMOVED


def build_library(folder: Path) -> None:
    """A library as indexing leaves it, with random sets: files, copies, skipped files and texts.

    For a library that exists, what indexing again does: adds what is missing.
    """
    segment_writer.FLUSH_SIZE = 64
    with Library.open_or_create(folder) as library, library.indexing_lock():
        quick_repair(library)
        library.catalog.add_root(Path("/photos"))
        _add_images(library)
        broken = FileRecord("/photos/broken.jpg", 9, 1, status=SKIPPED, reason="broken")
        library.catalog.put_files([broken])
        table = library.catalog.tables().get("/texts.csv")
        if table is None or not table.size:
            texts = _random_sets(20, library.info["text_slots"], library.info["dim"])
            ids = [text_id("/texts.csv", row) for row in range(20)]
            library.texts.add(ids, texts, [{"text": id_} for id_ in ids])
            library.catalog.put_table(TextTable("/texts.csv", 100, 1, 20))


def _add_images(library: Library) -> None:
    names = [f"/photos/{number:03}.jpg" for number in range(100)]
    sets = _random_sets(len(names), library.info["image_slots"], library.info["dim"])
    known = {record.path for record in library.catalog.files(INDEXED)}
    records = [
        FileRecord(name, 1000 + number, 1, f"digest {number // 2 * 2}", real_path=name)
        for number, name in enumerate(names)
    ]
    for start in range(0, len(names), 20):
        new = [number for number in range(start, start + 20) if names[number] not in known]
        metadata = [{"name": names[number][8:], "width": start} for number in new]
        library.images.add([names[number] for number in new], sets[new], metadata)
        library.catalog.put_files(records[number] for number in new)


def _random_sets(count: int, elements: int, dim: int) -> np.ndarray:
    sets = np.random.default_rng(0).normal(size=(count, elements, dim))
    return (sets / np.linalg.norm(sets, axis=2, keepdims=True)).astype(np.float32)


def library_answers(folder: Path) -> Answers:
    """Every kind of answer of a library; None where it raises an error."""
    library = ask(lambda: Library.open(folder))
    if library is None:
        return {}
    with library:
        catalog, info = library.catalog, library.info
        queries = _random_sets(5, info["image_slots"], info["dim"])
        calls: dict[str, Callable[[], Any]] = {
            "info": lambda: {name: info[name] for name in sorted(info) if name != "build_id"},
            "status": lambda: (catalog.count(INDEXED), catalog.roots, catalog.tables()),
            "files": lambda: list(catalog.files()),
            "skipped": lambda: list(catalog.files(SKIPPED)),
            "file": lambda: catalog.file("/photos/042.jpg"),
            "copies": catalog.identical_files,
            "digest": lambda: catalog.path_with_digest("digest 42"),
            "search": lambda: _hits(library.images.search(queries, k=10)),
            "filter": lambda: _hits(library.images.search(queries, k=5, filter="width > 30")),
            "get": lambda: _records([library.images.get([f"/photos/{n:03}.jpg" for n in (3, 50)])]),
            "walk": lambda: _records(library.images.walk(50)),
            "captions": lambda: _hits(library.texts.search(queries, k=3)),
        }
        return {name: ask(call) for name, call in calls.items()}


def trial_library(good: Path, folder: Path, kind: str, rng: random.Random) -> str:
    """One damage of a library; returns what happened, starting with WRONG if it must not."""
    expected = _expected(library_answers, good)
    shutil.copytree(good, folder)
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)
    file = rng.choice(files)
    what = f"{kind} of {file.name}"
    damage(file, kind, rng)
    named = find_problems(folder)
    copy = folder.with_name("asked")
    shutil.copytree(folder, copy)
    answers = library_answers(copy)
    shutil.rmtree(copy)
    given = {name: value for name, value in answers.items() if value is not None}
    wrong = [name for name, value in given.items() if value != expected[name]]
    if wrong:
        return f"WRONG answers to {', '.join(wrong)} ({what})"
    if not named:
        return f"WRONG: not named ({what})"
    actions = ask(lambda: repair_library(folder))
    if actions is None:
        return f"WRONG: cannot be repaired ({what}): {named}"
    if any("model is lost" in action for action in actions):
        return _compare_indexed_again(folder, expected, what)
    if problems := find_problems(folder):
        return f"WRONG: problems after the repair ({what}): {problems}"
    return _compare_library(folder, expected, what)


def _compare_library(folder: Path, expected: Answers, what: str) -> str:
    """After a repair: what is indexed is as it was, the rest waits for being encoded again."""
    answers = library_answers(folder)
    if answers == expected:
        return "named and repaired"
    good = {id_: blob for part in expected["walk"] for id_, blob in _split(part)}
    kept = {id_: blob for part in answers["walk"] for id_, blob in _split(part)}
    known = {record.path for record in answers["files"] if record.status == INDEXED}
    if any(good.get(id_) != blob for id_, blob in kept.items()) or not known <= kept.keys():
        return f"WRONG content after the repair ({what})"
    return _compare_indexed_again(folder, expected, what)


def _compare_indexed_again(folder: Path, expected: Answers, what: str) -> str:
    build_library(folder)
    answers = library_answers(folder)
    wrong = [name for name in expected if answers[name] != expected[name]]
    problems = find_problems(folder)
    if wrong or problems:
        return f"WRONG after indexing again ({what}): {wrong} {problems}"
    return TO_INDEX


def _split(part: Any) -> Iterator[tuple[str, Any]]:
    ids, data, metadata = part
    size = len(data) // max(1, len(ids))
    for number, (id_, fields) in enumerate(zip(ids, metadata, strict=True)):
        yield id_, (data[number * size : (number + 1) * size], fields)


def run(trial: Callable[..., str], good: Path, count: int, seed: int) -> Iterator[str]:
    """Outcomes of `count` damages, as many of each kind."""
    rng = random.Random(seed)
    kinds = ("flip", "flip", "zero page", "truncate", "delete")
    with tempfile.TemporaryDirectory() as temporary:
        for number in range(count):
            folder = Path(temporary) / f"{number}" / "damaged"
            folder.parent.mkdir()
            kind = kinds[number % len(kinds)]
            try:
                yield trial(good, folder, kind, rng)
            except Exception as error:  # only errors of diverset are answers
                place = traceback.extract_tb(error.__traceback__)[-1]
                yield f"WRONG: {error!r} in {place.name} of {place.filename} ({kind})"
            shutil.rmtree(folder.parent)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=["index", "library"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        wrong = 0
        for name, build, trial in (
            ("index", build_index, trial_index),
            ("library", build_library, trial_library),
        ):
            if args.only not in (None, name):
                continue
            build(Path(temporary) / name)
            outcomes = Counter(run(trial, Path(temporary) / name, args.count, args.seed))
            for outcome, number in outcomes.most_common():
                print(f"{name} {number:5} {outcome}", flush=True)
                wrong += number if outcome.startswith("WRONG") else 0
    print(json.dumps({"damages": args.count, "wrong": wrong}))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
