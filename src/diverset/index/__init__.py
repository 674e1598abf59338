"""Search over embedding sets: the embedded index, and the contract that engines share with it."""

from diverset.index.base import Hit, Metadata, Records, Sets, SetStore, Settings
from diverset.index.embedded import SetIndex

__all__ = ["Hit", "Metadata", "Records", "SetIndex", "SetStore", "Sets", "Settings"]
