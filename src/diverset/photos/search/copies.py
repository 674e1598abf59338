"""Files with identical content: shown as one hit, with the other paths beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from diverset.index import SetIndex
from diverset.index.filter_language import Filter
from diverset.index.set_store import Hit


class Copies:
    """The copies of a library.

    `groups` are the paths of each content that several files have.

    >>> copies = Copies([["/a.jpg", "/backup/a.jpg"]])
    >>> copies.others("/a.jpg"), copies.others("/b.jpg")
    (['/backup/a.jpg'], [])
    """

    def __init__(self, groups: Iterable[Sequence[str]]) -> None:
        self._group = {path: group for group in groups for path in group}
        self._repeated = sum(path != group[0] for path, group in self._group.items())

    def _first(self, path: str) -> str:
        """One path for all copies of a file."""
        return self._group[path][0] if path in self._group else path

    def others(self, path: str) -> list[str]:
        """The other files with the content of this one."""
        return [other for other in self._group.get(path, ()) if other != path]

    def fold(self, hits: Sequence[Hit], leave_out: str | None = None) -> list[Hit]:
        """The best hit of each content, without the content of the file `leave_out`."""
        seen = set() if leave_out is None else {self._first(leave_out)}
        folded = []
        for hit in hits:
            first = self._first(hit.id)
            if first not in seen:
                seen.add(first)
                folded.append(hit)
        return folded

    def count(
        self, index: SetIndex, filter: Filter | None = None, leave_out: str | None = None
    ) -> int:
        """Number of items of an index that pass a filter, each content counted once."""
        if filter is None:
            is_indexed = leave_out is not None and bool(index.get([leave_out]).ids)
            return index.count() - self._repeated - is_indexed
        if not self._group and leave_out is None:
            return index.count(filter)
        contents = {self._first(id_) for id_ in index.ids(filter)}
        return len(contents - {self._first(leave_out or "")})
