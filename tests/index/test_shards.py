"""Shards on disk: manifest is written is read back, manifest is damaged or foreign is refused."""

from dataclasses import replace

import numpy as np
import pytest
from store_support import SETTINGS, some_sets

from diverset.errors import DataError
from diverset.index.set_store import Records
from diverset.index.shards import (
    MANIFEST,
    ShardManifest,
    check_complete,
    content_hash,
    is_written,
    read_manifest,
    read_shard,
    start_shards,
    write_shard,
)

IDS = ["a", "ä/b.jpg", "'"]
ITEMS = Records(IDS, some_sets(3), [{"x": 1}, {"x": None, "y": "\U0001f600"}, {}])
THREE = ShardManifest(SETTINGS, "three", items=3, shard_size=3, content_hash=content_hash(IDS))


@pytest.fixture
def folder(tmp_path):
    start_shards(tmp_path, THREE)
    write_shard(tmp_path, 0, ITEMS)
    return tmp_path


def test_a_shard_is_read_back_unchanged(folder):
    assert read_manifest(folder) == THREE
    items = read_shard(folder, THREE, 0)
    np.testing.assert_array_equal(items.sets, ITEMS.sets)
    assert (items.ids, items.metadata) == (ITEMS.ids, ITEMS.metadata)
    assert sorted(file.name for file in folder.iterdir()) == [
        "00000000.npy", "00000000.parquet", MANIFEST,
    ]  # fmt: skip


def test_a_shard_without_its_parquet_file_is_incomplete(folder):
    check_complete(folder, THREE)
    (folder / "00000000.parquet").unlink()
    assert not is_written(folder, 0)
    with pytest.raises(DataError, match="1 of 1 shards"):
        check_complete(folder, THREE)


def test_a_folder_only_resumes_with_the_same_manifest(folder):
    start_shards(folder, THREE, rank=3)
    for other in (
        replace(THREE, settings=replace(SETTINGS, model="cafe")),
        replace(THREE, content_hash="other"),
        replace(THREE, shard_size=7),
    ):
        with pytest.raises(DataError, match="was started with"):
            start_shards(folder, other)


@pytest.mark.parametrize("cut", ["00000000.npy", "00000000.parquet"])
def test_truncated_shards_are_rejected(folder, cut):
    content = (folder / cut).read_bytes()
    (folder / cut).write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="cannot read shard 0 .* delete its two files"):
        read_shard(folder, THREE, 0)


def test_a_shard_with_too_few_sets_is_rejected(folder):
    np.save(folder / "00000000.npy", some_sets(2))
    with pytest.raises(DataError, match="3 ids and 2 sets"):
        read_shard(folder, THREE, 0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not complete JSON"),
        ('{"format": 9}', "update diverset"),
        ('{"format": 2}', "damaged"),
    ],
)
def test_a_damaged_or_newer_manifest_is_rejected(folder, content, words):
    (folder / MANIFEST).write_text(content)
    with pytest.raises(DataError, match=words):
        read_manifest(folder)


def test_the_last_shard_may_be_smaller():
    manifest = replace(THREE, items=25, shard_size=10)
    assert [len(manifest.item_range(shard)) for shard in manifest.shards] == [10, 10, 5]
