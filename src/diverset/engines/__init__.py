"""Search engines that hold embedding sets where one machine is not enough.

They keep the contract of the embedded index, `diverset.index.base.SetStore`; an address says
which: see `diverset.engines.addresses`. Servers' clients are imported when an address needs them.
"""

from diverset.engines.addresses import create_store, open_or_create, open_store, store_exists
from diverset.engines.transfer import add_shards, copy_store

__all__ = [
    "add_shards",
    "copy_store",
    "create_store",
    "open_or_create",
    "open_store",
    "store_exists",
]
