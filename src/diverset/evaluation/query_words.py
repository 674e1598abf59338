"""What the words of a query say before any image is seen: how many and how common they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from diverset.evaluation.caption_words import words

ARTICLES = frozenset(("a", "an", "the"))
LENGTHS = (1, 3)  # classes of texts: one word, two or three, more


class WordRates(NamedTuple):
    """Logarithms of how many of a thousand training captions contain words of a text.

    Attributes:
        rarest: of the rarest word.
        last: of the last word, which names the thing in most short queries.
        mean: over all words.
    """

    rarest: float
    last: float
    mean: float


def content_words(text: str) -> list[str]:
    """The words of a text without articles: "a dog" is rated like "dog".

    >>> content_words("A dog on the beach"), content_words("the")
    (['dog', 'on', 'beach'], ['the'])
    """
    all_words = words(text)
    return [word for word in all_words if word not in ARTICLES] or all_words


def word_rates(text: str, counts: Mapping[str, int], captions: int) -> WordRates:
    """The rates of the words of a text; a word that no caption contains counts as one.

    >>> rates = word_rates("black dog", {"black": 9, "dog": 99}, captions=1000)
    >>> [round(rate, 2) for rate in rates]
    [2.3, 4.61, 3.45]
    """
    of_text = content_words(text) or [""]
    rates = [math.log(1000 * (1 + counts.get(word, 0)) / max(captions, 1)) for word in of_text]
    return WordRates(min(rates), rates[-1], sum(rates) / len(rates))


def text_inputs(text: str, counts: Mapping[str, int], captions: int) -> list[float]:
    """Inputs of the calibration that depend on the text alone.

    These are whether it is a single word; the logarithm of the number of words; the rate of the
    rarest word and its negative part, both divided by the number of words, because one rare word
    among many says little; the mean rate, and the mean rate divided by the number of words.

    >>> inputs = text_inputs("a black dog", {"black": 9, "dog": 99}, captions=1000)
    >>> [round(value, 2) for value in inputs]
    [0.0, 0.69, 1.15, 0.0, 3.45, 1.73]
    >>> [round(value, 2) for value in text_inputs("unicorn", {}, captions=100_000)]
    [1.0, 0.0, -4.61, 4.61, -4.61, -4.61]
    """
    length, rates = max(len(content_words(text)), 1), word_rates(text, counts, captions)
    return [
        float(length == 1),
        math.log(length),
        rates.rarest / length,
        max(-rates.rarest, 0.0) / length,
        rates.mean,
        rates.mean / length,
    ]


def length_class(text: str) -> int:
    """The class of a text by its number of words.

    >>> [length_class(text) for text in ("a dog", "a black dog", "a black dog runs on")]
    [0, 1, 2]
    """
    return int(np.searchsorted(LENGTHS, len(content_words(text))))
