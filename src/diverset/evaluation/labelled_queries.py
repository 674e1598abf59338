"""Queries drawn from captions, each with the images that are relevant to it.

Relevance is decided by captions. An image is relevant to a noun if one of its captions contains it,
to a noun phrase if one caption contains all its words, and to a caption if it is the caption's own
image or if its captions contain all nouns of the caption, two or more. A man is also a person.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from diverset.data import CaptionDataset
from diverset.evaluation.caption_words import MIN_CAPTIONS, MIN_LETTERS, CaptionWords, words
from diverset.recipe.noun_phrases import noun_phrases

CAPTION, PHRASE, NOUN = "caption", "noun phrase", "noun"
ABSENT, LISTED = "absent noun", "listed thing"
PRESENT = (CAPTION, PHRASE, NOUN)
PERSONS = frozenset("baby boy child girl guy kid lady man player toddler woman".split())


@dataclass(frozen=True, eq=False)
class LabelledQuery:
    """A text and the images that are relevant to it.

    Attributes:
        kind: `CAPTION`, `PHRASE`, `NOUN`; or `ABSENT` for a noun of the training captions, and
            `LISTED` for a thing of a list, that no caption contains.
        text: what is searched for.
        relevant: for each image of the collection whether it is relevant.
        own: the image of a caption.
    """

    kind: str
    text: str
    relevant: Bool[np.ndarray, " images"]
    own: int | None = None


class CaptionIndex:
    """An inverted index: the captions and images that contain each word."""

    def __init__(self, dataset: CaptionDataset) -> None:
        self._count = len(dataset)
        self._image_of = dataset.image_index
        self._captions: defaultdict[str, set[int]] = defaultdict(set)
        self._images: defaultdict[str, set[int]] = defaultdict(set)
        for caption, text in enumerate(dataset.captions):
            contained = set(words(text))
            for word in contained | ({"person"} if contained & PERSONS else set()):
                self._captions[word].add(caption)
                self._images[word].add(int(self._image_of[caption]))

    def contains(self, word: str) -> bool:
        return word in self._images

    def images_with(self, wanted: Iterable[str]) -> Bool[np.ndarray, " images"]:
        """Images whose captions together contain all these words."""
        return self._mask(set.intersection(*(self._images.get(word, set()) for word in wanted)))

    def images_with_caption(self, wanted: Iterable[str]) -> Bool[np.ndarray, " images"]:
        """Images with a caption that contains all these words."""
        captions = set.intersection(*(self._captions.get(word, set()) for word in wanted))
        return self._mask({int(self._image_of[caption]) for caption in captions})

    def _mask(self, images: Iterable[int]) -> Bool[np.ndarray, " images"]:
        mask = np.zeros(self._count, dtype=bool)
        mask[list(images)] = True
        return mask


def draw_queries(
    dataset: CaptionDataset, vocabulary: CaptionWords, count: int, rng: np.random.Generator
) -> list[LabelledQuery]:
    """Up to `count` random queries of each kind.

    Nouns are those of the training captions, of which some are absent here, and those that only
    several captions of this dataset contain: people also search for what a model has hardly seen.
    """
    index = CaptionIndex(dataset)
    nouns = vocabulary.nouns | _new_nouns(dataset, vocabulary)
    phrases = {phrase for caption in dataset.captions for phrase in noun_phrases(caption)}
    phrases = {phrase for phrase in phrases if " " in phrase and words(phrase)[-1] in nouns}
    here = {noun for noun in nouns if index.contains(noun)}
    captions = rng.permutation(len(dataset.captions))[:count]
    return [
        *(_caption_query(dataset, index, int(caption)) for caption in captions),
        *(
            LabelledQuery(PHRASE, phrase, index.images_with_caption(words(phrase)))
            for phrase in _draw(phrases, count, rng)
        ),
        *(LabelledQuery(NOUN, noun, index.images_with([noun])) for noun in _draw(here, count, rng)),
        *(
            LabelledQuery(ABSENT, noun, np.zeros(len(dataset), dtype=bool))
            for noun in _draw(nouns - here, count, rng)
        ),
    ]


def absent_queries(dataset: CaptionDataset, things: Sequence[str]) -> list[LabelledQuery]:
    """Queries for those of the things whose last word no caption contains."""
    index, nothing = CaptionIndex(dataset), np.zeros(len(dataset), dtype=bool)
    return [
        LabelledQuery(LISTED, text, nothing)
        for text in things
        if not index.contains(words(text)[-1])
    ]


def _new_nouns(dataset: CaptionDataset, vocabulary: CaptionWords) -> frozenset[str]:
    """Nouns of several captions that are too rare in the training captions to be their nouns."""
    heads = Counter(
        head
        for caption in dataset.captions
        for head in {words(phrase)[-1] for phrase in noun_phrases(caption)}
    )
    return frozenset(
        head
        for head, count in heads.items()
        if count > 1 and len(head) >= MIN_LETTERS and vocabulary.counts.get(head, 0) < MIN_CAPTIONS
    )


def _caption_query(dataset: CaptionDataset, index: CaptionIndex, caption: int) -> LabelledQuery:
    text, own = dataset.captions[caption], int(dataset.image_index[caption])
    heads = {words(phrase)[-1] for phrase in noun_phrases(text)}
    relevant = index.images_with(heads) if len(heads) > 1 else np.zeros(len(dataset), dtype=bool)
    relevant[own] = True
    return LabelledQuery(CAPTION, text, relevant, own)


def _draw(texts: Iterable[str], count: int, rng: np.random.Generator) -> Sequence[str]:
    ordered = sorted(texts)
    return [ordered[index] for index in rng.permutation(len(ordered))[:count]]
