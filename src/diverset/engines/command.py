"""`diverset store copy` and `diverset store load-shards`."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

from diverset.engines import transfer
from diverset.engines.addresses import address_key, open_or_create, open_store
from diverset.errors import OptionError
from diverset.index.shards import read_manifest, resolve_rank
from diverset.runtime.folders import user_cache_folder
from diverset.runtime.progress import Progress


def copy(args: argparse.Namespace) -> int:
    source, target = args.source, args.target  # not in messages: they may contain passwords
    if address_key(source) == address_key(target):
        raise OptionError("source and target are the same store; give another target")
    with closing(open_store(source)) as store:
        with closing(open_or_create(target, store.settings)) as copied, Progress() as progress:
            journal = _journal(address_key(source), target)
            written = transfer.copy_store(store, copied, journal, progress.update)
            print(f"{written} items written, {copied.count()} in the store")
    return 0


def load_shards(args: argparse.Namespace) -> int:
    rank, world_size = resolve_rank(args.rank, args.world_size)
    shards = Path(args.folder)
    settings = read_manifest(shards).settings
    with closing(open_or_create(args.store, settings)) as store, Progress() as progress:
        journal = _journal(f"{shards.resolve()} {rank} {world_size}", args.store)
        written = transfer.load_shards(shards, store, journal, progress.update, rank, world_size)
        print(f"{written} items written, {store.count()} in the store")
    return 0


def _journal(source: str, target: str) -> transfer.Journal:
    return transfer.Journal.between(user_cache_folder() / "transfers", source, address_key(target))
