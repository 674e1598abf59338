"""Queries of three kinds, drawn from captions, with the images that are right for them.

Captions are the judge: an image is right for a noun if one of its captions contains it, for a noun
phrase if one caption contains all its words, and for a caption if it is the caption's own image or
if its captions contain the nouns of the caption, two or more. A man is also a person.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from diverset.data import CaptionDataset
from diverset.evaluation.caption_words import words
from diverset.recipe.noun_phrases import noun_phrases

CAPTION, PHRASE, NOUN, ABSENT = "caption", "noun phrase", "noun", "absent noun"
PRESENT = (CAPTION, PHRASE, NOUN)
PERSONS = frozenset("baby boy child girl guy kid lady man player toddler woman".split())


@dataclass(frozen=True, eq=False)
class JudgedQuery:
    """A text and the images that are right for it.

    Attributes:
        kind: `CAPTION`, `PHRASE`, `NOUN`, or `ABSENT` for a noun that no caption contains.
        text: what is searched for.
        right: for each image of the collection whether it is right.
        own: the image of a caption.
    """

    kind: str
    text: str
    right: Bool[np.ndarray, " images"]
    own: int | None = None


class CaptionJudge:
    """Finds images by the words of their captions."""

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
    dataset: CaptionDataset, nouns: Iterable[str], count: int, rng: np.random.Generator
) -> list[JudgedQuery]:
    """Up to `count` random queries of each kind.

    `nouns` are those of a larger collection of captions; some are absent here.
    """
    judge, nouns = CaptionJudge(dataset), set(nouns)
    phrases = {phrase for caption in dataset.captions for phrase in noun_phrases(caption)}
    phrases = {phrase for phrase in phrases if " " in phrase and words(phrase)[-1] in nouns}
    here = {noun for noun in nouns if judge.contains(noun)}
    captions = rng.permutation(len(dataset.captions))[:count]
    return [
        *(_caption_query(dataset, judge, int(caption)) for caption in captions),
        *(
            JudgedQuery(PHRASE, phrase, judge.images_with_caption(words(phrase)))
            for phrase in _draw(phrases, count, rng)
        ),
        *(JudgedQuery(NOUN, noun, judge.images_with([noun])) for noun in _draw(here, count, rng)),
        *(
            JudgedQuery(ABSENT, noun, np.zeros(len(dataset), dtype=bool))
            for noun in _draw(nouns - here, count, rng)
        ),
    ]


def _caption_query(dataset: CaptionDataset, judge: CaptionJudge, caption: int) -> JudgedQuery:
    text, own = dataset.captions[caption], int(dataset.image_index[caption])
    heads = {words(phrase)[-1] for phrase in noun_phrases(text)}
    right = judge.images_with(heads) if len(heads) > 1 else np.zeros(len(dataset), dtype=bool)
    right[own] = True
    return JudgedQuery(CAPTION, text, right, own)


def _draw(texts: Iterable[str], count: int, rng: np.random.Generator) -> Sequence[str]:
    ordered = sorted(texts)
    return [ordered[index] for index in rng.permutation(len(ordered))[:count]]
