"""Ids of texts in the index of a library."""

from pathlib import Path


def text_id(table: str | Path, row: int) -> str:
    """The id of a row of a table.

    >>> text_id("/texts/captions.csv", 3)
    '/texts/captions.csv#3'
    """
    return f"{table}#{row}"
