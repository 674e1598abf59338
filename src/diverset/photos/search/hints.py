"""Hints for a text query: words that exclude nothing, and words that may be misspelt."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from diverset.evaluation.caption_words import words

MIN_LETTERS = 4  # of a word that is checked; shorter ones have too many neighbours
LONG_WORD = 8  # letters from which two edits are allowed instead of one
EDIT = 2.5  # log count that outweighs an edit
MIN_CAPTIONS = 20  # that contain a known or suggested word; others are often misspelt themselves
CACHED = 1000
_EXCLUSION = re.compile(
    r"\b(?:without|no|not|except|excluding)\s+(?:an?\s+|the\s+|any\s+)?(.+)", re.IGNORECASE
)


def exclusion_hint(text: str) -> str | None:
    """A hint if a text excludes something in words, which the model does not understand.

    >>> exclusion_hint("a street without cars")
    'the model ignores "without"; to exclude something: --not "cars"'
    >>> exclusion_hint("a street with cars")
    """
    match = _EXCLUSION.search(text)
    if match is None:
        return None
    word = match.group(0).split()[0].lower()
    return f'the model ignores "{word}"; to exclude something: --not "{match.group(1).strip()}"'


class Speller:
    """Suggests common words of the training captions in place of unknown ones.

    `counts` is the number of training captions that contain each word; `is_word` tells whether a
    word is known otherwise, for example to the tokenizer.
    """

    def __init__(self, counts: Mapping[str, int], is_word: Callable[[str], bool]) -> None:
        self._counts, self._is_word = counts, is_word
        self._common = [word for word, count in counts.items() if count >= MIN_CAPTIONS]
        self._suggestion = lru_cache(CACHED)(self._find)

    def hint(self, text: str) -> str | None:
        """A hint if a word of a text may be misspelt.

        >>> Speller({"bicycle": 900, "red": 5000}, lambda word: False).hint("a red bicylce")
        'did you mean "bicycle" instead of "bicylce"?'
        """
        hints = [
            f'did you mean "{suggestion}" instead of "{word}"?'
            for word in words(text)
            if len(word) >= MIN_LETTERS and (suggestion := self._suggestion(word))
        ]
        return " ".join(hints) or None

    def _find(self, word: str) -> str | None:
        if self._counts.get(word, 0) >= MIN_CAPTIONS or self._is_word(word):
            return None
        from rapidfuzz import process  # most texts have no unknown word
        from rapidfuzz.distance import OSA

        edits = 2 if len(word) >= LONG_WORD else 1
        same_start = [other for other in self._common if other[0] == word[0]]
        near = process.extract(
            word, same_start, scorer=OSA.distance, score_cutoff=edits, limit=None
        )
        score = {other: math.log(self._counts[other]) - EDIT * cost for other, cost, _ in near}
        return max(score, key=score.__getitem__, default=None)
