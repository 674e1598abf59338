"""Shards: embedding sets of a large collection as files.

    manifest.json     model, number of items and shards
    00000000.npy      sets of the first items, float32 (items, elements, dim)
    00000000.parquet  their ids and metadata (as JSON); written last, so it marks a complete shard

A shard is written atomically. Shard n belongs to the process whose rank is n modulo the number of
processes, so processes on any machines can share a folder without communicating.
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

from diverset.errors import DataError, DiversetError, OptionError, a_few, import_extra
from diverset.index.checks import check_items
from diverset.index.set_store import IndexSettings, Records
from diverset.runtime.files import load_array, read_json_object, replace_durably, write_durably

FORMAT = 2
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class ShardManifest:
    """What a folder of shards contains.

    Attributes:
        settings: of the sets.
        source: what was encoded, for messages.
        items: number of items in all shards, including unreadable ones.
        shard_size: items per shard; the last one may have fewer.
        content_hash: of all ids, texts and their metadata; a folder is only resumed with equal
            contents.
        columns: metadata fields that came from a table.
    """

    settings: IndexSettings
    source: str
    items: int
    shard_size: int
    content_hash: str
    columns: tuple[str, ...] = ()

    @property
    def shards(self) -> range:
        """The numbers of the shards.

        >>> settings = IndexSettings("model", elements=4, dim=8)
        >>> ShardManifest(settings, "pets", items=25, shard_size=10, content_hash="").shards
        range(0, 3)
        """
        return range(-(-self.items // self.shard_size))

    def item_range(self, shard: int) -> range:
        return range(shard * self.shard_size, min((shard + 1) * self.shard_size, self.items))


def content_hash(*columns: Sequence[object]) -> str:
    """A hash of lists of equal length: ids, texts, metadata.

    >>> content_hash(["a", "b"]) == content_hash(["ab", ""])
    False
    """
    digest = hashlib.sha256()
    for row in zip(*columns, strict=True):
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()[:16]


def start_shards(folder: Path, manifest: ShardManifest, rank: int = 0) -> None:
    """Create a folder of shards, or check that an existing one has the same manifest.

    Any number of processes may call it at the same time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / MANIFEST).exists():
        stored = asdict(read_manifest(folder))
        for name, value in asdict(manifest).items():
            if stored[name] != value:
                raise DataError(
                    f"{folder} was started with {name} {stored[name]}, now it is {value}; "
                    "give another folder, or delete this one"
                )
        return
    content = {"format": FORMAT, **asdict(manifest)}
    temporary = folder / f"{MANIFEST}.{rank}"
    temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    replace_durably(temporary, folder / MANIFEST)


def read_manifest(folder: Path) -> ShardManifest:
    file = folder / MANIFEST
    if not file.is_file():
        raise DataError(
            f"{folder} has no {MANIFEST}; give a folder that diverset encode wrote, and encode "
            "again if an older version wrote it"
        )
    content = read_json_object(file)
    if (version := content.pop("format", None)) != FORMAT:
        raise DataError(
            f"{file} has format {version}, this version of diverset reads {FORMAT}; "
            "update diverset or encode again"
        )
    try:
        content["settings"] = IndexSettings(**content["settings"])
        content["columns"] = tuple(content.get("columns", ()))
        return ShardManifest(**content)
    except (TypeError, KeyError, DiversetError) as error:
        raise DataError(f"{file} is damaged ({error}); encode again") from error


def resolve_rank(rank: int | None = None, world_size: int | None = None) -> tuple[int, int]:
    """The rank of this process and the number of processes; by default as set by torchrun.

    >>> resolve_rank(1, 4)
    (1, 4)
    """
    try:
        rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        world_size = int(os.environ.get("WORLD_SIZE", "1")) if world_size is None else world_size
    except ValueError as error:
        raise OptionError(f"RANK and WORLD_SIZE must be whole numbers ({error})") from error
    if not 0 <= rank < world_size:
        raise OptionError(f"the rank is {rank} of {world_size} processes; ranks count from 0")
    return rank, world_size


def is_written(folder: Path, shard: int) -> bool:
    return _file(folder, shard, "parquet").exists()


def check_complete(folder: Path, manifest: ShardManifest) -> None:
    """Raise unless every shard is complete."""
    missing = [shard for shard in manifest.shards if not is_written(folder, shard)]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(manifest.shards)} shards are missing in {folder}: "
            f"{a_few(missing)}; run diverset encode again with the same arguments, for every rank"
        )


def shards_state(folder: Path, manifest: ShardManifest) -> str:
    """A text that changes when any shard is written again."""
    files = (_file(folder, shard, "parquet").stat() for shard in manifest.shards)
    written = [(file.st_size, file.st_mtime_ns) for file in files]
    return hashlib.sha256(json.dumps([asdict(manifest), written]).encode()).hexdigest()[:16]


def write_shard(folder: Path, shard: int, items: Records) -> None:
    """Write a shard; the file that marks it complete comes last."""
    arrow: Any = import_extra("pyarrow", "data")
    parquet: Any = import_extra("pyarrow.parquet", "data")
    sets = io.BytesIO()
    np.save(sets, items.sets.astype(np.float32))
    write_durably(_file(folder, shard, "npy"), sets.getvalue())
    metadata = [json.dumps(dict(item)) for item in items.metadata]
    columns = {"id": arrow.array(items.ids, arrow.string()), "metadata": metadata}
    table = io.BytesIO()
    parquet.write_table(arrow.table(columns), table)
    write_durably(_file(folder, shard, "parquet"), table.getvalue())


def read_shard(folder: Path, manifest: ShardManifest, shard: int) -> Records:
    """Read and check a shard."""
    arrow: Any = import_extra("pyarrow", "data")
    parquet: Any = import_extra("pyarrow.parquet", "data")
    try:
        table = parquet.read_table(_file(folder, shard, "parquet"))
        ids = table.column("id").to_pylist()
        metadata = [json.loads(item) for item in table.column("metadata").to_pylist()]
        sets = load_array(_file(folder, shard, "npy"))
        return check_items(manifest.settings, ids, sets, metadata)
    except (arrow.ArrowException, OSError, ValueError, KeyError, DiversetError) as error:
        raise DataError(
            f"cannot read shard {shard} of {folder} ({error}); delete its two files and run "
            "diverset encode again"
        ) from error


def _file(folder: Path, shard: int, suffix: str) -> Path:
    return folder / f"{shard:08d}.{suffix}"
