"""Input loaders: augmentation in training only, unreadable images are named."""

import numpy as np
import pytest
import torch
from PIL import Image

from diverset.backbones import load_image_backbone
from diverset.data import RandomResizedCrop
from diverset.errors import DataError
from diverset.recipe.loaders import (
    ImageLoader,
    JoinedLoader,
    RegionLoader,
    TokenLoader,
    WordLoader,
)
from diverset.types import Maps


def test_words_are_dropped_in_training_only():
    loader = WordLoader([[1, 4, 5, 6, 7, 8, 2]] * 20, 30, drop=0.5)
    plain = loader.batch(range(20))
    assert (plain.values == torch.tensor([1, 4, 5, 6, 7, 8, 2])).all()
    dropped = loader.batch(range(20), np.random.default_rng(0))
    assert not torch.equal(dropped.values, plain.values)
    assert (dropped.values[:, 0] == 1).all()


def test_regions_and_tokens_are_dropped_in_training_only():
    loader = RegionLoader([np.ones((9, 4), np.float32)] * 3, drop=0.5)
    assert loader.batch([0, 1]).mask.all()
    assert not loader.batch([0, 1], np.random.default_rng(0)).mask.all()
    tokens = TokenLoader([torch.arange(9)] * 3, drop=0.5)
    assert tokens.batch([0]).values.shape == (1, 9)
    dropped = tokens.batch([0, 1, 2], np.random.default_rng(0))
    lengths = dropped.mask.sum(dim=1)
    assert lengths.max() < 9
    # The first and the last token belong to the backbone and stay.
    assert (dropped.values[:, 0] == 0).all()
    assert (dropped.values[torch.arange(3), lengths - 1] == 8).all()


def test_an_unreadable_image_is_named(tmp_path):
    Image.new("RGB", (40, 30)).save(tmp_path / "good.png")
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff\xe0 cut off")
    backbone = load_image_backbone("small_cnn", 32)
    files = [tmp_path / "good.png", tmp_path / "bad.jpg"]
    loader = ImageLoader(files, backbone.preprocess, RandomResizedCrop(scale=(0.5, 1.0)))
    assert loader.batch([0]).shape == loader.batch([0], np.random.default_rng(0)).shape
    with pytest.raises(DataError, match="bad.jpg"):
        loader.batch([1])


def test_joined_loaders_give_the_rows_of_their_parts():
    rng = np.random.default_rng(0)
    arrays = [rng.random((length, 4), dtype=np.float32) for length in (3, 5, 2, 4)]
    parts = [RegionLoader(arrays[:2]), RegionLoader(arrays[2:])]
    joined = JoinedLoader(parts)
    batch = joined.batch([3, 0, 2, 1])
    assert len(joined) == 4 and batch.mask.sum(dim=1).tolist() == [4, 3, 2, 5]
    for row, index in enumerate((3, 0, 2, 1)):
        length = len(arrays[index])
        assert np.array_equal(batch.values[row, :length].numpy(), arrays[index])
        assert not batch.mask[row, length:].any()
    one_part = joined.batch([1, 0])
    assert torch.equal(one_part.values, parts[0].batch([1, 0]).values)


def test_joined_loaders_keep_masked_tokens_in_their_place():
    parts = [TokenLoader([torch.arange(6)]), TokenLoader([torch.arange(10, 13)])]
    batch = JoinedLoader(parts).batch([1, 0])
    assert batch.values.tolist() == [[10, 11, 12, 0, 0, 0], [0, 1, 2, 3, 4, 5]]
    dropped = JoinedLoader([RegionLoader([np.ones((9, 2), np.float32)], drop=0.5)] * 2)
    masked = dropped.batch([0, 1], np.random.default_rng(0))
    assert masked.values.shape == (2, 9, 2) and not masked.mask.all()


def test_joined_maps_keep_their_masks():
    class MaskedMaps:
        def __len__(self):
            return 2

        def batch(self, indices, rng=None):
            mask = torch.zeros(len(indices), 4, dtype=torch.bool)
            mask[torch.arange(len(indices)), torch.as_tensor(np.asarray(indices))] = True
            return Maps(
                torch.as_tensor(np.asarray(indices)).view(-1, 1, 1, 1).expand(-1, 1, 2, 2), mask
            )

    batch = JoinedLoader([MaskedMaps(), MaskedMaps()]).batch([3, 0, 1])
    assert batch.values[:, 0, 0, 0].tolist() == [1, 0, 1]
    assert batch.mask.int().argmax(dim=1).tolist() == [1, 0, 1]
