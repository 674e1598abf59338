"""Batches: every image once per epoch, the same batches for the same seed, shares of processes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from diverset.recipe.config import DataConfig, LossConfig, Recipe, TrainConfig
from diverset.training.batches import Batches, draw_order


class Numbers:
    """A source whose inputs are the requested rows themselves."""

    def __len__(self):
        return 100

    def batch(self, indices, rng=None):
        return torch.as_tensor(np.asarray(indices))


def batches(
    size=4, seed=0, captions=None, weights=None, short_by_image=None, short_share=0.0, **options
):
    split = SimpleNamespace(
        dataset=SimpleNamespace(captions=range(20)),
        images=Numbers(),
        texts=Numbers(),
        by_image=[np.array([2 * image, 2 * image + 1]) for image in range(10)],
        weights=weights,
        short_texts=None if short_by_image is None else SimpleNamespace(by_image=short_by_image),
    )
    recipe = Recipe(
        train=TrainConfig(batch_size=size, seed=seed, captions=captions),
        data=DataConfig(short_texts=short_share),
        loss=LossConfig(contrastive=1.0),
    )
    return Batches(split, recipe, **options)


def images_of(epoch: Batches, **options):
    return [batch.images.tolist() for batch in epoch.iterate(**options)]


def test_an_epoch_has_every_image_once_with_all_its_captions():
    seen = []
    for batch in batches().iterate():
        captions = batch.texts.tolist()
        for caption, row in zip(captions, batch.image_index.tolist(), strict=True):
            assert caption // 2 == int(batch.images[row])
        assert sorted(captions) == sorted(2 * int(i) + j for i in batch.images for j in (0, 1))
        seen += batch.images.tolist()
    assert sorted(seen) == list(range(10))


@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes")  # on 1 core
def test_batches_depend_on_seed_epoch_and_number_only():
    first = images_of(batches())
    assert first == images_of(batches())
    assert first[1:] == images_of(batches(), first=1)
    assert first != images_of(batches(epoch=1))
    assert first != images_of(batches(seed=1))
    assert first == images_of(batches(), workers=2)


@pytest.mark.filterwarnings("ignore:This DataLoader will create 2 worker processes")  # on 1 core
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_do_not_change_the_random_state_that_decides_dropout(workers):
    """Otherwise a run that is resumed within an epoch would draw other numbers."""
    before = torch.get_rng_state()
    images_of(batches(), workers=workers)
    assert torch.equal(torch.get_rng_state(), before)


def test_processes_divide_a_batch():
    whole = batches()[0].images.tolist()
    parts = [batches(rank=rank, world_size=2)[0].images.tolist() for rank in (0, 1)]
    assert parts[0] + parts[1] == whole


def test_a_last_batch_of_one_image_is_dropped():
    assert len(batches(size=3)) == 3 and len(batches(size=4)) == 3


def test_captions_limits_the_captions_per_image():
    assert len(batches(captions=1)[0].texts) == 4


def test_weights_decide_how_often_images_are_drawn():
    weights = np.repeat([1.0, 2.5, 0.25], [40, 20, 40])
    drawn = np.zeros(100)
    for epoch in range(40):
        order = draw_order(weights, np.random.default_rng([0, epoch]))
        assert len(order) == 100  # 40 + 50 + 10 in every epoch
        counts = np.bincount(order, minlength=100)
        assert (counts >= np.floor(weights)).all() and (counts <= np.ceil(weights)).all()
        drawn += counts
    assert abs(drawn[40:60].mean() / 40 - 2.5) < 0.1 and abs(drawn[60:].mean() / 40 - 0.25) < 0.1


def test_an_image_drawn_twice_is_never_twice_in_a_batch():
    epoch = batches(weights=np.array([3.0] * 2 + [1.0] * 8), size=6)
    assert len(epoch) == 3
    for batch in epoch.iterate():
        assert len(set(batch.images.tolist())) == len(batch.images)


def test_equal_weights_draw_every_image_once():
    seen = [image for images in images_of(batches(weights=np.ones(10))) for image in images]
    assert sorted(seen) == list(range(10))


def test_short_texts_have_their_share_of_the_texts():
    short = [np.arange(5 * image, 5 * image + 5) for image in range(10)]  # rows after 20 captions
    texts = []
    for epoch in range(100):
        for batch in batches(epoch=epoch, short_by_image=short, short_share=0.3).iterate():
            rows = batch.texts.tolist()
            owners = batch.images[batch.image_index].tolist()
            for row, image in zip(rows, owners, strict=True):
                assert image == (row // 2 if row < 20 else (row - 20) // 5)
            texts += rows
    share = np.mean(np.array(texts) >= 20)
    assert abs(share - 0.3) < 0.02


def test_images_without_short_texts_have_captions_only():
    nothing = [np.zeros(0, np.int64)] * 10
    batch = batches(short_by_image=nothing, short_share=0.5)[0]
    assert len(batch.texts) == 8
