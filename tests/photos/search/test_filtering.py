"""Filters over images: dates by period, home folders, fields of images."""

import os

import pytest
from index.index_support import make_index

from diverset.errors import OptionError
from diverset.photos.search.filtering import photo_filter

TAKEN = ["2019-12-31T23:59:59", "2020-01-01T00:00:00", "2020-07-04T12:30:00", "2021-03-01T08:00:00"]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    home = os.path.expanduser("~")
    metadata = [{"taken": taken, "folder": f"{home}/Pictures/{taken[:4]}"} for taken in TAKEN]
    with make_index(tmp_path_factory.mktemp("filtering"), 4, metadata=metadata) as made:
        yield made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("taken = 2020", 2),
        ("taken != '2020'", 2),
        ("taken <= 2020", 3),
        ("taken < 2020", 1),
        ("taken > 2020", 1),
        ("taken > 2019-12-31", 3),
        ("taken >= 2020", 3),
        ("taken between 2020-07 and 2021-03", 2),
        ("taken between 2019 and 2020-01-01", 2),
        ("taken in (2019, 2021-03)", 2),
        ("taken = '2020-07-04 12:30'", 1),
        ("taken contains '-07-04T'", 1),
        ("not taken = 2020 or taken = 2020-07-04T12:30:00", 3),
        ("folder under '~/Pictures'", 4),
        ("folder = '~/Pictures/2020'", 2),
        ("width > 10", 0),  # images may have it, though none does here
    ],
)
def test_dates_stand_for_their_whole_period(index, text, expected):
    assert index.count(photo_filter(text, index)) == expected


@pytest.mark.parametrize("value", ["'summer'", "'2020-1'", "2020-13", "20200", "true", "''"])
def test_what_is_not_a_date_is_rejected(index, value):
    with pytest.raises(OptionError, match="taken is a date, .* write 2020, 2020-07"):
        photo_filter(f"taken >= {value}", index)


def test_an_unknown_field_is_rejected_with_the_fields_of_images(index):
    with pytest.raises(OptionError, match="did you mean width"):
        photo_filter("widht > 10", index)
