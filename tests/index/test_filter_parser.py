"""Operators of the filter language, by example."""

import pytest
from filter_support import matches

from diverset.errors import OptionError
from diverset.index.filter_parser import parse

PHOTO = {
    "name": "IMG_7 Rome.jpg",
    "folder": "/photos/2020/Rome",
    "width": 4000,
    "day": "2020-07-04",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name contains 'Rome'", True),
        ("name contains 'rome'", False),  # upper and lower case differ
        ("name CONTAINS 'Rome'", True),
        ("name not contains 'Oslo' and name startswith 'IMG_'", True),
        ("name startswith 'MG_'", False),
        ("width between 4000 and 5000", True),
        ("width between 1 and 4000 and width between 4000 and 4000", True),
        ("width not between 1 and 3999", True),
        ("folder under '/photos/2020'", True),
        ("folder under '/photos/2020/Rome/'", True),
        ("folder under '/'", True),
        ("folder under '/photos/202'", False),
        ("not folder under '/photos'", False),
        ("day = 2020-07-04 and day > 2020-07 and day < 2020-07-04T10:30", True),
        ("day in (2020-07-03, 2020-07-04)", True),
    ],
)
def test_operators_mean_what_their_names_say(text, expected):
    assert matches(parse(text), PHOTO) is expected


def test_words_that_are_operators_may_name_fields():
    assert matches(parse("under = 1 and contains contains 'x'"), {"under": 1, "contains": "axb"})


@pytest.mark.parametrize("text", ["name like 'x'", "name contains 5", "width between 1 or 2"])
def test_the_error_shows_where_parsing_stopped_and_an_example(text):
    with pytest.raises(OptionError, match="cannot parse the filter .* name contains 'beach'"):
        parse(text)
