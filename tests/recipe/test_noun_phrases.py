"""Short texts: noun phrases of captions and labels of images."""

import numpy as np
import pytest

from diverset.data import CaptionDataset
from diverset.errors import DataError
from diverset.recipe.noun_phrases import noun_phrases, short_texts


@pytest.mark.parametrize(
    ("caption", "phrases"),
    [
        ("A man in a red shirt is riding his bike.", ["man", "red shirt", "bike"]),
        ("The smiling woman holds a wedding ring", ["smiling woman holds", "wedding ring"]),
        ("a dog runs", ["dog"]),
        ("two dogs play with another dog", ["dogs play", "dog"]),
        ("a very big dog", []),
        ("Dogs run.", []),
        ("a big old red brick building", []),
        ("", []),
    ],
)
def test_noun_phrases_start_at_a_determiner_and_end_before_the_verb(caption, phrases):
    assert noun_phrases(caption) == phrases


def dataset(labels=None) -> CaptionDataset:
    captions = ("a brown dog", "the brown dog on a beach", "a brown dog and a cat", "a zebu")
    return CaptionDataset("pets", ("a", "b", "c"), captions, np.array([0, 1, 1, 2]), labels=labels)


def test_short_texts_are_frequent_phrases_their_heads_and_labels():
    short = short_texts(dataset((("dog", "ball"), (), ("cow",))), min_head=3, min_phrase=3)
    by_image = [[short.texts[row] for row in rows] for rows in short.by_image]
    assert by_image == [["brown dog", "dog", "ball"], ["brown dog", "dog"], ["cow"]]


def test_no_frequent_phrase_is_an_error():
    with pytest.raises(DataError, match="set data.short_texts to 0"):
        short_texts(dataset(), min_phrase=4)
