"""Doctests of docstrings as code blocks of the documentation site, instead of nested quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^( *)>>> .*(?:\n(?! *$).*)*", re.MULTILINE)


def fence(text: str) -> str:
    """Put every doctest, up to the next empty line, into a code block.

    >>> fence("Adds.\\n\\n>>> 1 + 1\\n2")
    'Adds.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```'
    """
    return DOCTEST.sub(lambda match: f"{match[1]}```pycon\n{match[0]}\n{match[1]}```", text)


class Doctests(griffe.Extension):
    """Rewrites the docstring of every object."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fence(obj.docstring.value)
