import time

import pytest

from diverset.data import tokenize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A dog .", ["a", "dog", "."]),
        ("don't", ["do", "n't"]),
        ("Can't won't", ["ca", "n't", "wo", "n't"]),
        ("dogs' and dog's", ["dogs", "'", "and", "dog", "'s"]),
        ("I'm, he'd, they've, we're", "i 'm , he 'd , they 've , we 're".split()),
        ("black-and-white", ["black-and-white"]),
        ("wait -- what...", ["wait", "--", "what", "..."]),
        ("U.S. flag.", ["u.s.", "flag", "."]),
        ("1,000 or 3.5, 2.", ["1,000", "or", "3.5", ",", "2", "."]),
        ('"hi!" (yes)?', ['"', "hi", "!", '"', "(", "yes", ")", "?"]),
        ("cafe\u0301", ["café"]),
        ("Straße 犬", ["straße", "犬"]),
        ("\t\n ", []),
        ("", []),
    ],
)
def test_text_is_split_into_words(text: str, expected: list[str]):
    assert tokenize(text) == expected


def test_only_white_space_is_dropped():
    text = "a'b''c n't 's --- .. x-y- 1.2.3. @#% _a_ don'ts"
    assert "".join(tokenize(text)) == text.replace(" ", "").lower()


@pytest.mark.parametrize("piece", ["a", "-", "a-", "'", "n't", ".", "1,", "a.", "a'"])
def test_long_input_takes_linear_time(piece: str):
    start = time.perf_counter()
    tokenize(piece * 20_000)
    assert time.perf_counter() - start < 2
