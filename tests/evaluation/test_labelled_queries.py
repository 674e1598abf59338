"""Queries of captions and the images that are relevant to them."""

from dataclasses import replace

import numpy as np
import pytest

from diverset.data import CaptionDataset
from diverset.evaluation.caption_words import CaptionWords, words
from diverset.evaluation.labelled_queries import (
    ABSENT,
    CAPTION,
    NOUN,
    PHRASE,
    CaptionIndex,
    absent_queries,
    draw_queries,
)

CAPTIONS = (
    "A brown dog on the beach.", "Dogs near the sea.",
    "A man with a brown hat.", "The man holds a dog.",
    "A red car in the street.",
)  # fmt: skip


@pytest.fixture
def dataset():
    return CaptionDataset("small", ("a", "b", "c"), CAPTIONS, np.array([0, 0, 1, 1, 2]))


def images(mask):
    return np.flatnonzero(mask).tolist()


def test_words_are_compared_in_the_singular():
    assert words("Children, boxes and dishes!") == ["child", "box", "and", "dish"]
    assert words("glass bus tennis") == ["glass", "bus", "tennis"]


def test_an_image_is_relevant_to_a_noun_if_a_caption_contains_it(dataset):
    index = CaptionIndex(dataset)
    assert images(index.images_with(["dog"])) == [0, 1]
    assert images(index.images_with(["dog", "hat"])) == [1]
    assert images(index.images_with(["person"])) == [1]
    assert images(index.images_with(["zebra"])) == []


def test_the_words_of_a_phrase_must_be_in_one_caption(dataset):
    index = CaptionIndex(dataset)
    assert images(index.images_with(["brown", "dog"])) == [0, 1]
    assert images(index.images_with_caption(["brown", "dog"])) == [0]


def test_queries_of_every_kind_are_drawn(dataset):
    known = CaptionWords(100, {}, frozenset({"dog", "hat", "car", "zebra"}))
    queries = draw_queries(dataset, known, 10, np.random.default_rng(0))
    by_kind = {
        kind: {query.text: images(query.relevant) for query in queries if query.kind == kind}
        for kind in (CAPTION, PHRASE, NOUN, ABSENT)
    }
    assert by_kind[NOUN] == {"dog": [0, 1], "hat": [1], "car": [2]}
    assert by_kind[ABSENT] == {"zebra": []}
    assert by_kind[PHRASE] == {"brown dog": [0], "brown hat": [1], "red car": [2]}
    assert by_kind[CAPTION]["The man holds a dog."] == [1]
    assert {query.own for query in queries if query.kind == CAPTION} == {0, 1, 2}


def test_nouns_that_training_captions_hardly_contain_are_drawn_too(dataset):
    rare = CaptionWords(100, {"dog": 90, "beach": 4}, frozenset({"dog"}))
    more = replace(dataset, captions=(*CAPTIONS[:4], "The beach and the street."))
    queries = draw_queries(more, rare, 10, np.random.default_rng(0))
    nouns = {query.text: images(query.relevant) for query in queries if query.kind == NOUN}
    assert nouns == {"dog": [0, 1], "beach": [0, 2]}


def test_listed_things_are_absent_if_no_caption_has_their_last_word(dataset):
    queries = absent_queries(dataset, ["violin", "race car", "car race"])
    assert [query.text for query in queries] == ["violin", "car race"]
    assert not any(query.relevant.any() for query in queries)


def test_nouns_are_words_that_mostly_end_a_noun_phrase():
    counted = CaptionWords.of(["A red car on the red wall."] * 6 + ["a rarity"])
    assert counted.captions == 7 and counted.counts["red"] == 6
    assert counted.nouns == {"car", "wall"}
