"""Encode a collection into shards, some of them in this process.

Shard n belongs to the process whose rank is n modulo the number of processes, so processes on any
machines can share a folder without communicating. Finished shards are not encoded again.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

import numpy as np

from diverset.encode.item_source import ItemSource
from diverset.errors import a_few, check_count
from diverset.index.set_store import IndexSettings, Records
from diverset.index.shards import ShardManifest, is_written, start_shards, write_shard
from diverset.model import Model
from diverset.runtime.progress import Progress

BATCH = 128
log = logging.getLogger(__name__)


def write_shards(
    model: Model,
    source: ItemSource,
    folder: Path,
    rank: int = 0,
    world_size: int = 1,
    shard_size: int = 10_000,
    progress: Progress | None = None,
) -> int:
    """Write the missing shards of one process; returns their number."""
    manifest = ShardManifest(
        IndexSettings.for_model(model, source.elements),
        source.name,
        len(source.ids),
        check_count("shard_size", shard_size),
        source.content_hash,
        source.columns,
    )
    start_shards(folder, manifest, rank)
    own = manifest.shards[rank::world_size]
    missing = [shard for shard in own if not is_written(folder, shard)]
    progress = progress or Progress(enabled=False)
    for shard in missing:
        started = time.monotonic()
        records = _encode_shard(source, manifest.item_range(shard), progress, f"shard {shard}")
        write_shard(folder, shard, records)
        rate = len(records.ids) / max(time.monotonic() - started, 1e-9)
        progress.message(
            f"shard {shard} of {len(manifest.shards)}: {len(records.ids)} items, {rate:.0f}/s"
        )
    progress.message(f"rank {rank} of {world_size}: wrote {len(missing)} of {len(own)} shards")
    return len(missing)


def _encode_shard(source: ItemSource, items: range, progress: Progress, task: str) -> Records:
    parts: list[Records] = []
    unreadable: list[str] = []
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        part, failed = source.encode(batch)
        parts.append(part)
        unreadable += failed
        progress.update(task, batch.stop - items.start, len(items))
    if unreadable:
        log.warning("%d unreadable images left out: %s", len(unreadable), a_few(unreadable))
    return Records(
        [item for part in parts for item in part.ids],
        np.concatenate([part.sets for part in parts]),
        [metadata for part in parts for metadata in part.metadata],
    )
