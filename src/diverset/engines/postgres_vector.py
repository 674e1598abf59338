"""pgvector's type on the wire: numpy arrays to and from its binary form.

Two bytes of width, two that are reserved, then the numbers as big-endian float32. Text, which
pgvector accepts as well, is three times as long and slow to print.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types import TypeInfo

_HEAD = struct.Struct(">HH")


def to_wire(vector: NDArray[Any]) -> bytes:
    """A vector as pgvector receives it.

    >>> from_wire(to_wire(np.array([0.5, -2.0])))
    array([ 0.5, -2. ], dtype=float32)
    """
    return _HEAD.pack(len(vector), 0) + vector.astype(">f4").tobytes()


def from_wire(data: Buffer) -> NDArray[np.float32]:
    """What pgvector sends."""
    return np.frombuffer(data, dtype=">f4", offset=_HEAD.size).astype(np.float32)


class _Dumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: NDArray[Any]) -> bytes:
        return to_wire(obj)


class _Loader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> NDArray[np.float32]:
        return from_wire(data)


def register_vector(connection: psycopg.Connection[Any]) -> bool:
    """Teach a connection the type; says whether the database has it."""
    found = TypeInfo.fetch(connection, "vector")
    if found is None:
        return False
    # The type's number differs between databases, and psycopg reads it from the class.
    dumper = type("VectorDumper", (_Dumper,), {"oid": found.oid})
    connection.adapters.register_dumper(np.ndarray, dumper)
    connection.adapters.register_loader(found.oid, _Loader)
    return True
