import re
from random import Random

import pytest

from diverset.reproduce.scenes import Situation, describe, possible_situations
from diverset.reproduce.scenes.sentences import VERBS, participle, with_s
from diverset.reproduce.scenes.vocabulary import KINDS


def test_captions_describe_their_situation(parse_caption) -> None:
    rng = Random(0)
    for situation in possible_situations("high")[::5]:
        caption = describe(situation, rng)
        expected = (
            situation.kind,
            situation.colour,
            situation.companion,
            situation.count > 1,
        )
        assert parse_caption(caption) == expected, caption


def test_captions_are_grammatical() -> None:
    rng = Random(1)
    plurals = {many for kind in KINDS for noun in kind.nouns if (many := with_s(noun)) != noun}
    for situation in possible_situations("high")[::3]:
        caption = describe(situation, rng)
        assert re.fullmatch(r"[A-Z][a-z -]*\.", caption), caption
        words = caption[:-1].lower().split()
        for word, following in zip(words, words[1:], strict=False):
            if word in ("a", "an"):
                assert (word == "an") == (following[0] in "aeiou"), caption
            assert word != following, caption
        assert ("are" in words) <= (situation.count > 1), caption
        assert bool(plurals & set(words)) <= (situation.count > 1), caption


@pytest.mark.parametrize("count", [1, 2])
def test_verbs_agree_with_their_subject(count: int) -> None:
    situation = Situation("dog", "blue", "under", "umbrella", count=count)
    base = set(VERBS["ground", "under"])
    right, wrong = base | {"are"}, {with_s(verb) for verb in base} | {"is"}
    if count == 1:
        right, wrong = wrong, right
    loose = {participle(verb) for verb in base}
    for seed in range(80):
        words = set(describe(situation, Random(seed))[:-1].split())
        if words & {"above", "over"}:  # the umbrella is the subject
            assert "is" in words
        else:
            assert words & (right | loose) and not words & wrong


def test_captions_of_a_situation_vary() -> None:
    situation = Situation("cat", "blue", "beside", "lamp")
    captions = {describe(situation, Random(seed)) for seed in range(200)}
    assert len(captions) > 80
