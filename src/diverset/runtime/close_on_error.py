"""Closing a resource if the code that takes it over fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> None: ...


Resource = TypeVar("Resource", bound=Closable)


@contextmanager
def close_on_error(resource: Resource) -> Iterator[Resource]:
    """Close a resource if the block raises; otherwise it stays open."""
    try:
        yield resource
    except BaseException:
        resource.close()
        raise
