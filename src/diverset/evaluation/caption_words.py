"""Words of captions: in the singular, with the number of captions that contain them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from diverset.recipe.noun_phrases import noun_phrases

IRREGULAR = {
    "men": "man",
    "women": "woman",
    "children": "child",
    "people": "person",
    "feet": "foot",
}
MIN_CAPTIONS = 5  # that must contain a noun; rarer ones are mostly misspelt
MIN_LETTERS = 3
_WORD = re.compile(r"[^\W\d_]+")


def words(text: str) -> list[str]:
    """The words of a text in the singular, by simple rules.

    >>> words("Two puppies and a child watch buses.")
    ['two', 'puppy', 'and', 'a', 'child', 'watch', 'bus']
    """
    return [_singular(word) for word in _WORD.findall(text.lower())]


def _singular(word: str) -> str:
    if word in IRREGULAR or len(word) <= 3:
        return IRREGULAR.get(word, word)
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "sses", "xes", "uses")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


@dataclass(frozen=True)
class CaptionWords:
    """Words of a collection of captions.

    Attributes:
        captions: number of captions.
        counts: number of captions that contain each word.
        nouns: words that mostly end a noun phrase.
    """

    captions: int
    counts: dict[str, int]
    nouns: frozenset[str]

    @classmethod
    def of(cls, captions: Iterable[str]) -> CaptionWords:
        """Count the words of captions.

        >>> words = CaptionWords.of(["A dog runs.", "Two dogs on the grass."] * 5)
        >>> words.counts["dog"], sorted(words.nouns)
        (10, ['dog', 'grass'])
        """
        total = 0
        counts: Counter[str] = Counter()
        heads: Counter[str] = Counter()
        for caption in captions:
            total += 1
            counts.update(set(words(caption)))
            heads.update({words(phrase)[-1] for phrase in noun_phrases(caption)})
        nouns = frozenset(
            word
            for word, count in heads.items()
            if len(word) >= MIN_LETTERS
            and counts[word] >= MIN_CAPTIONS
            and 2 * count >= counts[word]
        )
        return cls(total, dict(counts), nouns)
