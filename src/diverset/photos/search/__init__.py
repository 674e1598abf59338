"""From a query to hits with explanations, over the library's indexes."""

from diverset.photos.search.query import SearchQuery
from diverset.photos.search.result import SearchHit, SearchResult
from diverset.photos.search.searcher import Searcher

__all__ = ["SearchHit", "SearchQuery", "SearchResult", "Searcher"]
