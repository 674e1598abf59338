"""`diverset encode`: the sets of a large collection as shards, some of them by this process.

Shard n belongs to the process with rank n modulo their number, so that any number of processes
and machines can share a folder without talking to each other. Finished shards are left alone.
"""

from __future__ import annotations

import argparse
import logging
import time
from pathlib import Path

import numpy as np

from diverset.encode_inputs import Inputs, of_pictures, of_split, of_texts
from diverset.errors import CheckpointError, OptionError, a_few
from diverset.index.base import Records
from diverset.index.of_model import settings_of
from diverset.index.shards import About, begin, is_written, share, write_shard
from diverset.loading import NAMES
from diverset.model import Model
from diverset.pretrained import CONFIG
from diverset.training.bars import Bars
from diverset.training.evaluating import open_run
from diverset.training.memory import keep_freed_memory
from diverset.training.run import RECIPE
from diverset.training.settings import DataConfig

BATCH = 128
log = logging.getLogger(__name__)


def run(given: argparse.Namespace) -> int:
    """The verb."""
    keep_freed_memory()  # batches are of one size: the same large blocks again and again
    rank, world = share(given.rank, given.world)
    model, data = open_model(given.model, given.device)
    if bool(given.pictures) + bool(given.texts) + bool(given.captions or given.split) > 1:
        raise OptionError("give one of --pictures, --texts, and --split with or without --captions")
    if given.pictures:
        inputs = of_pictures(model, Path(given.pictures), given.precision)
    elif given.texts:
        names = (given.id_column, given.text_column, given.metadata)
        inputs = of_texts(model, Path(given.texts), *names, given.precision)
    else:
        if data is None:
            raise OptionError(
                f"{given.model} is a model without its data; give --pictures or --texts"
            )
        asked = (given.split, given.data, given.captions, given.precision)
        inputs = of_split(model, data, *asked)
    with Bars() as bars:
        encode(model, inputs, Path(given.out), rank, world, given.shard_size, bars)
    return 0


def encode(
    model: Model,
    inputs: Inputs,
    folder: Path,
    rank: int = 0,
    world: int = 1,
    size: int = 10_000,
    bars: Bars | None = None,
) -> int:
    """Write the shards of one process that are not there yet; says how many it wrote."""
    if size < 1:
        raise OptionError(f"the shard size is {size}; give a number from 1 on")
    about = About(
        settings_of(model, inputs.slots),
        inputs.name,
        len(inputs.ids),
        size,
        inputs.digest,
        inputs.columns,
    )
    begin(folder, about, rank)
    mine = about.numbers[rank::world]
    left = [one for one in mine if not is_written(folder, one)]
    for number in left:
        started = time.monotonic()
        items = _encoded(inputs, about.places(number), bars, f"shard {number}")
        write_shard(folder, number, items)
        if bars:
            rate = len(items.ids) / max(time.monotonic() - started, 1e-9)
            shown = f"shard {number} of {len(about.numbers)}: {len(items.ids)} items, {rate:.0f}/s"
            bars.show(shown, 0, 0)
    if bars:
        bars.show(f"rank {rank} of {world}: {len(left)} of its {len(mine)} shards written", 0, 0)
    return len(left)


def open_model(name: str, device: str = "cpu") -> tuple[Model, DataConfig | None]:
    """The model of a run with its data, or a model alone."""
    folder = Path(name)
    if (folder / RECIPE).exists() or (name in NAMES and not folder.exists()):
        return open_run(name, device)
    if not (folder / CONFIG).exists():
        raise CheckpointError(f"{folder} has neither {RECIPE} nor {CONFIG}; give a run or a model")
    return Model.from_pretrained(folder, device), None


def _encoded(inputs: Inputs, places: range, bars: Bars | None, what: str) -> Records:
    """One shard, batch by batch; what cannot be read is left out and named."""
    parts: list[Records] = []
    lost: list[str] = []
    for start in range(places.start, places.stop, BATCH):
        some = range(start, min(start + BATCH, places.stop))
        part, unreadable = inputs.encode(some)
        parts.append(part)
        lost += unreadable
        if bars:
            bars.show(what, some.stop - places.start, len(places) + 1)
    if lost:
        log.warning("%d pictures cannot be read and are left out: %s", len(lost), a_few(lost))
    return Records(
        [one for part in parts for one in part.ids],
        np.concatenate([part.sets for part in parts]),
        [one for part in parts for one in part.metadata],
    )
