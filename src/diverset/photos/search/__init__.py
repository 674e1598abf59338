"""From a query to hits with explanations, over the library's indexes."""

from diverset.photos.search.query import SearchQuery
from diverset.photos.search.searcher import Match, Searcher, SearchResult

__all__ = ["Match", "SearchQuery", "SearchResult", "Searcher"]
