"""Search engines that store embedding sets where one machine is not enough.

They implement the protocol of the embedded index, `diverset.index.SetStore`. An address selects the
store (`diverset.engines.addresses`). Client libraries are imported when an address needs them.
"""

from diverset.engines.addresses import create_store, open_or_create, open_store, store_exists
from diverset.engines.transfer import copy_store, load_shards

__all__ = [
    "copy_store",
    "create_store",
    "load_shards",
    "open_or_create",
    "open_store",
    "store_exists",
]
