import pytest

from diverset.runtime.terminal import printable


@pytest.mark.parametrize("name", ["café 東京 🏖.jpg", "a b\u00a0c", "नमस्ते\u200d", ""])
def test_names_of_every_language_stay_as_they_are(name):
    assert printable(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\rb\nc\td", r"a\rb\nc\td"),
        ("\x9b2J\x7f", r"\x9b2J\x7f"),
        ("gpj.\u202eexe", r"gpj.\u202eexe"),
        ("line\u2028break", r"line\u2028break"),
        ("\udcff.png", r"\udcff.png"),
    ],
)
def test_characters_that_act_on_a_terminal_are_escaped(name, shown):
    assert printable(name) == shown
