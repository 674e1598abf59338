"""Hints for queries that exclude in words or contain a misspelt word."""

import pytest

from diverset.photos.search.hints import Speller, exclusion_hint

COUNTS = {
    "bicycle": 900,
    "elephant": 3000,
    "elegant": 40,
    "mountain": 800,
    "moutain": 6,
    "kite": 90,
}


@pytest.fixture
def speller():
    return Speller(COUNTS, is_word={"otter", "bite"}.__contains__)


@pytest.mark.parametrize(
    "word, suggestion",
    [
        ("bicylce", "bicycle"), ("elephnatt", "elephant"), ("moutain", "mountain"),
        ("bicycles", None), ("otter", None), ("bite", None), ("kit", None), ("xylophone", None),
    ],
)  # fmt: skip
def test_a_misspelt_word_gets_the_most_common_similar_word(speller, word, suggestion):
    hint = speller.hint(f"a red {word}")
    expected = f'did you mean "{suggestion}" instead of "{word}"?' if suggestion else None
    assert hint == expected


def test_without_a_vocabulary_nothing_is_suggested():
    assert Speller({}, lambda word: False).hint("a bicylce") is None


@pytest.mark.parametrize(
    "text, excluded",
    [("a dog without a leash", "leash"), ("beach, NO people", "people"), ("not the sea", "sea")],
)
def test_excluding_in_words_gives_a_hint(text, excluded):
    assert f'--not "{excluded}"' in exclusion_hint(text)


def test_other_texts_give_no_hint():
    for text in ("a notebook", "snow", "a piano and a cat", "without"):
        assert exclusion_hint(text) is None
