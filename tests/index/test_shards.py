"""Shards on disk: what is written is read back, what is damaged or foreign is refused."""

from dataclasses import replace

import numpy as np
import pytest
from store_support import SETTINGS, some_sets

from diverset.errors import DataError
from diverset.index.base import Records
from diverset.index.shards import (
    ABOUT,
    About,
    begin,
    check_complete,
    digest_of,
    is_written,
    read_about,
    read_shard,
    write_shard,
)

IDS = ["a", "ä/b.jpg", "'"]
ITEMS = Records(IDS, some_sets(3), [{"x": 1}, {"x": None, "y": "\U0001f600"}, {}])
WHAT = About(SETTINGS, "three", items=3, size=3, digest=digest_of(IDS))


@pytest.fixture
def folder(tmp_path):
    begin(tmp_path, WHAT)
    write_shard(tmp_path, 0, ITEMS)
    return tmp_path


def test_what_is_written_is_read(folder):
    assert read_about(folder) == WHAT
    found = read_shard(folder, WHAT, 0)
    np.testing.assert_array_equal(found.sets, ITEMS.sets)
    assert (found.ids, found.metadata) == (ITEMS.ids, ITEMS.metadata)
    assert sorted(file.name for file in folder.iterdir()) == [
        "00000000.npy", "00000000.parquet", ABOUT,
    ]  # fmt: skip


def test_a_shard_counts_once_its_second_file_is_there(folder):
    check_complete(folder, WHAT)
    (folder / "00000000.parquet").unlink()
    assert not is_written(folder, 0)
    with pytest.raises(DataError, match="1 of 1 shards"):
        check_complete(folder, WHAT)


def test_a_folder_is_gone_on_with_only_for_the_same(folder):
    begin(folder, WHAT, rank=3)
    for other in (
        replace(WHAT, settings=replace(SETTINGS, model="cafe")),
        replace(WHAT, digest="other"),
        replace(WHAT, size=7),
    ):
        with pytest.raises(DataError, match="was begun with"):
            begin(folder, other)


@pytest.mark.parametrize("cut", ["00000000.npy", "00000000.parquet"])
def test_cut_off_files_are_refused_by_name(folder, cut):
    content = (folder / cut).read_bytes()
    (folder / cut).write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="shard 0 .* delete its two files"):
        read_shard(folder, WHAT, 0)


def test_sets_that_do_not_fit_are_refused(folder):
    np.save(folder / "00000000.npy", some_sets(2))
    with pytest.raises(DataError, match="3 ids and 2 sets"):
        read_shard(folder, WHAT, 0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not complete JSON"),
        ('{"format": 9}', "update diverset"),
        ('{"format": 1}', "damaged"),
    ],
)
def test_a_damaged_or_newer_about(folder, content, words):
    (folder / ABOUT).write_text(content)
    with pytest.raises(DataError, match=words):
        read_about(folder)


def test_items_split_into_shards():
    what = replace(WHAT, items=25, size=10)
    assert [len(what.places(number)) for number in what.numbers] == [10, 10, 5]
