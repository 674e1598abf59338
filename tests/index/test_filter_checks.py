"""An index rejects filters with unknown fields and values of another kind."""

import pytest
from index.index_support import make_index, make_sets

from diverset.errors import OptionError

METADATA = [{"year": 2020, "place": "Rome", "night": True}, {"year": "unknown"}]
WRONG = [
    ("yaer > 2000", "no field 'yaer'; did you mean year"),
    ("size > 2000", "no field 'size'; use one of: night, place, year"),
    ("place = 5", "place is text, 5 is a number; for example: place = 'Rome'"),
    ("night = 'x'", "night is true or false, 'x' is text; for example: night = true"),
    ("year = true", "year is a number or text"),
    ("not (year = 1 or night > true)", "compare it by = or !="),
]


@pytest.mark.parametrize(("filter", "message"), WRONG)
def test_unknown_fields_and_wrong_kinds_are_errors_in_every_method(tmp_path, filter, message):
    with make_index(tmp_path, 2, metadata=METADATA) as index:
        for call in (
            lambda: index.search(make_sets(1), filter=filter),
            lambda: index.search_by(make_sets(1)[0], lambda c: c[:, 0, 0], filter=filter),
            lambda: index.count(filter),
        ):
            with pytest.raises(OptionError, match=message.replace("(", r"\(")):
                call()


def test_a_field_with_values_of_two_kinds_compares_with_both(tmp_path):
    with make_index(tmp_path, 2, metadata=METADATA) as index:
        assert (index.count("year = 2020"), index.count("year = 'unknown'")) == (1, 1)


def test_an_empty_index_accepts_every_filter(tmp_path):
    with make_index(tmp_path) as index:
        assert index.count("year > 2000") == 0 and index.search(make_sets(1), filter="a = 1") == [
            []
        ]


def test_items_without_metadata_have_no_fields(tmp_path):
    with make_index(tmp_path, 2) as index:
        with pytest.raises(OptionError, match="no field 'year'; use one of: none"):
            index.count("year > 2000")
