"""Several searches at once: their texts are encoded together, and plain ones ranked together.

Every search has the result, or the error, that it has alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from diverset.errors import DiversetError
from diverset.index.set_store import Hit
from diverset.photos.search.query import SearchQuery
from diverset.photos.search.result import SearchResult
from diverset.photos.search.searcher import PreparedSearch, Searcher
from diverset.photos.search.text_sets import Elements


class Search(NamedTuple):
    """The arguments of `Searcher.search`; the image may be given by a function that reads it."""

    query: SearchQuery
    image: Elements | Callable[[], Elements] | None = None
    element: int | None = None


def search_together(
    searcher: Searcher, searches: Sequence[Search]
) -> list[SearchResult | DiversetError]:
    """The result of each search, or why there is none."""
    # What fails for all of them is repeated by each, which then has its own error.
    with suppress(DiversetError):
        searcher.encode_text.encode_all(
            text for search in searches for text in search.query.encoded_texts
        )
    results: dict[int, SearchResult | DiversetError] = {}
    prepared: dict[int, PreparedSearch] = {}
    for number, search in enumerate(searches):
        try:
            image = search.image() if callable(search.image) else search.image
            prepared[number] = searcher.prepare(search.query, image, search.element)
        except DiversetError as error:
            results[number] = error
    hits: dict[int, list[Hit]] = {}
    with suppress(DiversetError):
        hits.update(_rank_together(searcher, prepared))
    for number, search_prepared in prepared.items():
        try:
            results[number] = searcher.complete(search_prepared, hits.get(number))
        except DiversetError as error:
            results[number] = error
    return [results[number] for number in range(len(searches))]


def _rank_together(
    searcher: Searcher, prepared: Mapping[int, PreparedSearch]
) -> Iterator[tuple[int, list[Hit]]]:
    """The first hits of the plain searches; those with one filter and count at once."""
    groups: dict[tuple[str | None, int, tuple[int, ...]], list[int]] = {}
    for number, search in prepared.items():
        if search.score.is_plain:
            key = (search.query.filter, search.fetch_count, search.score.elements.shape)
            groups.setdefault(key, []).append(number)
    for (_, count, _), numbers in groups.items():
        queries = np.stack([prepared[number].score.elements for number in numbers])
        filter = prepared[numbers[0]].filter
        yield from zip(numbers, searcher.library.images.search(queries, count, filter), strict=True)
