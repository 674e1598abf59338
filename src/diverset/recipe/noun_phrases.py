"""Short texts for training: noun phrases of captions and names of objects.

Captions are sentences, but people search with a word or two. A few rules find noun phrases: the
words after a determiner, up to a preposition, a verb or punctuation.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from diverset.data import CaptionDataset
from diverset.errors import DataError

MAX_WORDS = 3
MIN_HEAD, MIN_PHRASE = 15, 3
SINGULAR = frozenset("a an another one each".split())
DETERMINERS = SINGULAR | frozenset(
    "the this that his her its their some two three four several many both".split()
)
BOUNDARIES = DETERMINERS | frozenset(
    """about above across after against along and around as at back be been before behind being
    below beside between bunch but by couple down during edge for from front group had has have he
    him in inside into is are was were it it's lot looking middle near next no not of off on onto or
    other out outside over pair she side sitting so someone something standing than them then there
    they through to together top under up very when where which while who whom whose with
    all""".split()
)
NOUNS_IN_ING = frozenset(
    """awning building ceiling clothing dressing evening frosting king morning painting railing ring
    string wedding wing""".split()
)
NOUNS_IN_ED = frozenset("bed red seed shed sled weed".split())
VERBS = frozenset("has holds jumps looks plays rides runs sits stands walks".split())
_TOKEN = re.compile(r"[a-z']+|[,.;]")
_PLURAL = re.compile(r"[^sui]s$")


def noun_phrases(caption: str) -> list[str]:
    """The noun phrases of a caption, without determiners.

    >>> noun_phrases("A small brown dog runs along the beach, chasing two red balls.")
    ['small brown dog', 'beach', 'red balls']
    """
    tokens = _TOKEN.findall(caption.lower())
    phrases = []
    for start, determiner in enumerate(tokens, 1):
        if determiner not in DETERMINERS:
            continue
        words = tokens[start : start + MAX_WORDS + 1]
        ends = (end for end, token in enumerate(words) if _ends_phrase(token, is_first=end == 0))
        words = words[: next(ends, len(words))]
        if len(words) > 1 and determiner in SINGULAR and _PLURAL.search(words[-1]):
            words = words[:-1]  # "a dog runs"
        if 1 <= len(words) <= MAX_WORDS:
            phrases.append(" ".join(words))
    return phrases


def _ends_phrase(token: str, is_first: bool) -> bool:
    if token in BOUNDARIES or not token[0].isalpha():
        return True
    is_verb = (token.endswith("ing") and token not in NOUNS_IN_ING) or (
        token.endswith("ed") and token not in NOUNS_IN_ED
    )
    return is_verb and not is_first  # "a smiling man", but "a man smiling"


@dataclass(frozen=True)
class ShortTexts:
    """Short texts of a split.

    Attributes:
        texts: all short texts of all images.
        by_image: for every image the indices of its short texts.
    """

    texts: tuple[str, ...]
    by_image: list[NDArray[np.int64]]


def short_texts(
    dataset: CaptionDataset, min_head: int = MIN_HEAD, min_phrase: int = MIN_PHRASE
) -> ShortTexts:
    """For every image its noun phrases, their last words and its labels.

    Rare phrases are mostly errors of the rules. A phrase must occur `min_phrase` times in all
    captions, and its last word must end `min_head` phrases.
    """
    phrases = [
        [phrase for caption in dataset.captions_of(image) for phrase in noun_phrases(caption)]
        for image in range(len(dataset))
    ]
    counts = Counter(chain.from_iterable(phrases))
    heads = Counter(map(_head, counts.elements()))
    texts: list[str] = []
    by_image = []
    for image, of_image in enumerate(phrases):
        labels = dataset.labels[image] if dataset.labels is not None else ()
        frequent = [
            phrase
            for phrase in of_image
            if counts[phrase] >= min_phrase
            and heads[_head(phrase)] >= min_head
            and _head(phrase) not in VERBS
        ]
        unique = list(dict.fromkeys([*frequent, *map(_head, frequent), *labels]))
        by_image.append(np.arange(len(texts), len(texts) + len(unique)))
        texts += unique
    if not texts:
        raise DataError(
            f"{dataset.name} has no labels, and no noun phrase occurs {min_phrase} times with a "
            f"last word that ends {min_head}; set data.short_texts to 0"
        )
    return ShortTexts(tuple(texts), by_image)


def _head(phrase: str) -> str:
    return phrase.rsplit(" ", 1)[-1]
