"""`diverset index copy` and `diverset index add-shards`."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from diverset.engines import transfer
from diverset.engines.addresses import address_key, open_or_create, open_store
from diverset.errors import OptionError
from diverset.index.shards import read_about, share
from diverset.training.bars import Bars
from diverset.training.evaluating import default_cache


def copy(given: argparse.Namespace) -> int:
    """Copy an index into another one, which is made if it is not there."""
    if address_key(given.source) == address_key(given.target):
        raise OptionError("both addresses are the same; give another one to copy to")
    with closing(open_store(given.source)) as source:
        with closing(open_or_create(given.target, source.settings)) as target, Bars() as bars:
            written = transfer.copy_store(
                source, target, _journal(address_key(given.source), given.target), bars.show
            )
            print(f"{written} items written, {target.count()} in the index")
    return 0


def add_shards(given: argparse.Namespace) -> int:
    """Add shards to an index, which is made if it is not there."""
    rank, world = share(given.rank, given.world)
    folder = Path(given.folder)
    settings = read_about(folder).settings
    with closing(open_or_create(given.index, settings)) as target, Bars() as bars:
        journal = _journal(f"{folder.resolve()} {rank} {world}", given.index)
        written = transfer.add_shards(folder, target, journal, bars.show, rank, world)
        print(f"{written} items written, {target.count()} in the index")
    return 0


def _journal(source: str, target: str) -> transfer.Journal:
    return transfer.Journal.between(default_cache() / "transfers", source, address_key(target))
