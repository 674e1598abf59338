"""Embedding sets of a large collection as files: shards that processes write and stores take in.

    about.json      which model, how many items and shards
    00000000.npy    sets of the first items, float32 (items, slots, dim)
    00000000.parquet  their ids and metadata (as JSON); written last, so where it is, both are

A shard is written whole or not at all. Shard n is the business of the process with rank n modulo
their number, so that processes on any machines share a folder without talking to each other.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diverset.data.files import read_json_object, replace_durably, write_durably
from diverset.errors import DataError, DiversetError, OptionError, a_few, import_extra
from diverset.index.base import Records, Settings
from diverset.index.checks import check_items

FORMAT = 1
ABOUT = "about.json"


@dataclass(frozen=True)
class About:
    """What a folder of shards holds.

    Attributes:
        settings: of the sets.
        source: what was encoded, for messages.
        items: how many there are in all shards, unreadable ones included.
        size: items of a shard; the last one may have fewer.
        digest: of all ids, and of texts and their metadata, to recognise a folder that was begun
            with something else.
        columns: fields of the metadata that came from a table.
    """

    settings: Settings
    source: str
    items: int
    size: int
    digest: str
    columns: tuple[str, ...] = ()

    @property
    def numbers(self) -> range:
        """The shards.

        >>> About(Settings("m", 4, 8), "pets", items=25, size=10, digest="").numbers
        range(0, 3)
        """
        return range(-(-self.items // self.size))

    def places(self, number: int) -> range:
        """Which items a shard holds."""
        return range(number * self.size, min((number + 1) * self.size, self.items))


def digest_of(*lists: Sequence[object]) -> str:
    """A short name of lists of one length: ids, texts, metadata.

    >>> digest_of(["a", "b"]) == digest_of(["ab", ""])
    False
    """
    found = hashlib.sha256()
    for row in zip(*lists, strict=True):
        found.update(json.dumps(row).encode())
    return found.hexdigest()[:16]


def begin(folder: Path, about: About, rank: int = 0) -> None:
    """Start a folder, or go on with one that was begun for the same; any number may begin it."""
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / ABOUT).exists():
        found = read_about(folder)
        for name, value in asdict(about).items():
            there = asdict(found)[name]
            if there != value:
                raise DataError(
                    f"{folder} was begun with {name} {there}, now it is {value}; "
                    "give another folder, or delete this one"
                )
        return
    content = {"format": FORMAT, **asdict(about)}
    mine = folder / f"{ABOUT}.{rank}"  # two processes may begin at once
    mine.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    replace_durably(mine, folder / ABOUT)


def read_about(folder: Path) -> About:
    """What a folder of shards says of itself."""
    if not (folder / ABOUT).is_file():
        raise DataError(f"{folder} has no {ABOUT}; give a folder that diverset encode wrote")
    content = read_json_object(folder / ABOUT)
    if content.pop("format", None) != FORMAT:
        raise DataError(f"{folder / ABOUT} is not of format {FORMAT}; update diverset")
    try:
        made = {
            "settings": Settings(**content["settings"]),
            "columns": tuple(content.get("columns", ())),
        }
        return About(**{**content, **made})
    except (TypeError, KeyError, DiversetError) as error:
        raise DataError(f"{folder / ABOUT} is damaged ({error}); encode again") from error


def share(rank: int | None = None, world: int | None = None) -> tuple[int, int]:
    """Which process this is, of how many; torchrun says so in the environment.

    >>> share(1, 4)
    (1, 4)
    """
    try:
        rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        world = int(os.environ.get("WORLD_SIZE", "1")) if world is None else world
    except ValueError as error:
        raise OptionError(f"RANK and WORLD_SIZE are to be whole numbers ({error})") from error
    if not 0 <= rank < world:
        raise OptionError(f"the rank is {rank} of {world} processes; ranks begin with 0")
    return rank, world


def is_written(folder: Path, number: int) -> bool:
    """Whether a shard is complete."""
    return _file(folder, number, "parquet").exists()


def check_complete(folder: Path, about: About) -> None:
    """Raise unless every shard is there."""
    missing = [number for number in about.numbers if not is_written(folder, number)]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(about.numbers)} shards are not in {folder}: {a_few(missing)}; "
            "run diverset encode again with the same arguments, for every rank"
        )


def state_of(folder: Path, about: About) -> str:
    """A short text that is another one once any shard was written anew."""
    files = (_file(folder, number, "parquet").stat() for number in about.numbers)
    written = [(file.st_size, file.st_mtime_ns) for file in files]
    return hashlib.sha256(json.dumps([asdict(about), written]).encode()).hexdigest()[:16]


def write_shard(folder: Path, number: int, items: Records) -> None:
    """Write one shard; the file that makes it count comes last."""
    arrow: Any = import_extra("pyarrow", "data")
    parquet: Any = import_extra("pyarrow.parquet", "data")
    sets = io.BytesIO()
    np.save(sets, items.sets.astype(np.float32))
    write_durably(_file(folder, number, "npy"), sets.getvalue())
    metadata = [json.dumps(dict(one)) for one in items.metadata]
    names = {"id": arrow.array(items.ids, arrow.string()), "metadata": metadata}
    table = io.BytesIO()
    parquet.write_table(arrow.table(names), table)
    write_durably(_file(folder, number, "parquet"), table.getvalue())


def read_shard(folder: Path, about: About, number: int) -> Records:
    """Read one shard, checked as anything that is stored."""
    arrow: Any = import_extra("pyarrow", "data")
    parquet: Any = import_extra("pyarrow.parquet", "data")
    try:
        table = parquet.read_table(_file(folder, number, "parquet"))
        ids = table.column("id").to_pylist()
        metadata = [json.loads(one) for one in table.column("metadata").to_pylist()]
        sets = np.load(_file(folder, number, "npy"), allow_pickle=False)
        return check_items(about.settings, ids, sets, metadata)
    except (arrow.ArrowException, OSError, ValueError, KeyError, DiversetError) as error:
        raise DataError(
            f"shard {number} of {folder} cannot be read ({error}); delete its two files and run "
            "diverset encode again"
        ) from error


def _file(folder: Path, number: int, kind: str) -> Path:
    return folder / f"{number:08d}.{kind}"
