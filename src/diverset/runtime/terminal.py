"""Text of unknown origin, such as the names of files, for terminals and logs."""

from __future__ import annotations

import unicodedata

BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f")


def printable(text: str) -> str:
    """The text with control characters, line breaks and undecodable bytes written as escapes.

    A name could otherwise clear the screen, change its colours, or look like another line.

    >>> printable("caf\\u00e9\\x1b[2J\\n\\udcff.jpg")
    'café\\\\x1b[2J\\\\n\\\\udcff.jpg'
    """
    if text.isprintable():  # also rejects separators other than the space
        return text
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    harmless = unicodedata.category(character) not in ("Cc", "Cs", "Zl", "Zp")
    if harmless and character not in BIDIRECTIONAL:
        return character
    return character.encode("unicode_escape").decode("ascii")
