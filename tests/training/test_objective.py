"""The objective: which losses a recipe adds up, with which weights."""

from dataclasses import replace

import pytest
import torch
from tiny_networks import scenes_recipe
from torch.nn import functional as F

from diverset import ImageConfig, Model, ModelConfig, SetConfig, TextConfig, Vocabulary
from diverset.config import SimilarityConfig
from diverset.errors import OptionError
from diverset.evaluation import Member
from diverset.losses import Captioner, contrastive, distillation, off_global, triplet, within_set
from diverset.recipe.config import DistillConfig, LossConfig
from diverset.similarity import smooth_chamfer
from diverset.training.auxiliary_targets import AuxiliaryTargets, BatchTargets
from diverset.training.objective import Objective, caption_loss
from diverset.types import EmbeddingSets, Features


def sets(count: int, size: int) -> EmbeddingSets:
    slots, pooled = torch.randn(count, size, 8), torch.randn(count, 8)
    return EmbeddingSets(F.normalize(slots, dim=-1), slots, pooled=pooled)


def small_model() -> Model:
    config = scenes_recipe("x").model
    config = replace(config, image=replace(config.image, trainable_blocks=0))
    return Model(config, Vocabulary.build(["a dog", "a cat"], 1))


def test_losses_of_sets_of_different_sizes():
    images, texts = sets(3, 4), sets(6, 2)
    image_index = torch.tensor([0, 0, 1, 1, 2, 2])
    loss = LossConfig(off_global=0.5, off_global_margin=0.1, within_set=0.25, soft_labels=0.2)
    auxiliary = AuxiliaryTargets(torch.randn(6, 4), [Member(images.elements, texts.elements)])
    targets = auxiliary.of_batch(torch.arange(3), torch.arange(6))
    model = small_model()
    for kind in ("triplet", "contrastive"):
        config = replace(loss, kind=kind, contrastive=1.0, gram_diversity=0.1)
        objective = Objective(config, DistillConfig(weight=3.0))
        losses = objective(model, images, texts, image_index, 0, targets)
        assert all(value.isfinite() for value in losses.values())
        pushed = sum(off_global(side.elements, side.pooled, 0.1) for side in (images, texts))
        torch.testing.assert_close(losses["off_global"], 0.5 * pushed)
        pairs = within_set(images.elements) + within_set(texts.elements)
        torch.testing.assert_close(losses["within_set"], 0.25 * pairs)
        scores = model.score(images.elements, texts.elements)
        torch.testing.assert_close(
            losses["distillation"], 3 * distillation(scores, targets.teacher_scores, 0.05)
        )
    without = replace(images, pooled=None)
    with pytest.raises(OptionError, match="loss.off_global needs"):
        Objective(loss)(model, without, texts, image_index, 0)


def test_alpha_grows_to_the_alpha_of_the_model():
    model, images, texts = small_model(), sets(3, 2), sets(3, 2)
    image_index = torch.arange(3)
    loss = LossConfig(kind="contrastive", mmd=0, diversity=0, alpha_start=1.0, alpha_epochs=4)
    losses = [
        float(Objective(loss)(model, images, texts, image_index, epoch)["contrastive"])
        for epoch in (0, 2, 4)
    ]
    expected = [
        float(contrastive(smooth_chamfer(images.elements, texts.elements, alpha), image_index))
        for alpha in (1.0, 4.0, 16.0)
    ]
    assert losses == pytest.approx(expected)


def test_pcme_needs_gaussian_sets():
    objective = Objective(LossConfig(kind="soft_contrastive"))
    with pytest.raises(OptionError, match="gaussian"):
        objective(small_model(), sets(2, 2), sets(2, 2), torch.tensor([0, 1]), 0)


def test_short_texts_take_part_in_info_nce_only():
    model, images, texts = small_model(), sets(3, 2), sets(5, 2)
    image_index, is_long = torch.tensor([0, 0, 1, 2, 2]), torch.tensor([1, 0, 1, 1, 0]).bool()
    related = torch.rand(3, 5) < 0.3
    targets = BatchTargets(related=related, is_long=is_long)
    config = LossConfig(contrastive=1.0, mmd=0, diversity=0)
    losses = Objective(config)(model, images, texts, image_index, 0, targets)
    scores = model.score(images.elements, texts.elements)
    long_scores, long_index = scores[:, is_long], image_index[is_long]
    expected = triplet(long_scores, long_index, 0.2, "hardest", related[:, is_long])
    assert torch.equal(losses["triplet"], expected)
    assert torch.equal(losses["contrastive"], contrastive(scores, image_index, excluded=related))


def test_the_sum_of_the_triplet_loss_is_that_of_all_captions():
    model, images, texts = small_model(), sets(3, 2), sets(5, 2)
    image_index = torch.tensor([0, 0, 1, 2, 2])
    mean, total = (
        Objective(LossConfig(mmd=0, diversity=0, reduction=reduction))(
            model, images, texts, image_index, 0
        )["triplet"]
        for reduction in ("mean", "sum")
    )
    torch.testing.assert_close(total, 5 * mean)


def test_captions_are_generated_from_the_local_features_of_their_image():
    torch.manual_seed(0)
    local, mask = torch.randn(2, 3, 8), torch.tensor([[1, 1, 1], [1, 0, 1]]).bool()
    images = replace(sets(2, 2), features=Features(local, mask, torch.randn(2, 8)))
    captioner = Captioner(8, 9, hidden=6, word_width=4, dropout=0.0)
    objective = Objective(LossConfig(mmd=0, diversity=0, captioning=0.5), captioner=captioner)
    captions = [[1, 5, 2], [1, 6, 7, 8, 2], [1, 4, 2]]
    image_index = torch.tensor([0, 1, 1])
    losses = objective(
        small_model(), images, sets(3, 2), image_index, 0, BatchTargets(captions=captions)
    )
    each = [
        caption_loss(captioner, images, image_index[row : row + 1], captions[row : row + 1])
        for row in range(3)
    ]
    torch.testing.assert_close(losses["captioning"], 0.5 * torch.stack(each).mean())


def test_naaf_learns_its_threshold_from_the_matches_of_a_batch():
    torch.manual_seed(0)
    local = SetConfig(kind="local")
    config = ModelConfig(
        dim=8,
        image=ImageConfig(input_width=4),
        text=TextConfig(kind="transformer", input_width=4),
        image_set=local,
        text_set=local,
        similarity=SimilarityConfig(kind="naaf", attention=20.0),
    )
    model, regions = Model(config), torch.randn(40, 8, 8)
    images, texts = (
        EmbeddingSets(F.normalize(noisy, dim=-1), noisy)
        for noisy in (regions, regions + 0.3 * torch.randn_like(regions))
    )
    objective = Objective(LossConfig(mmd=0, diversity=0))
    losses = objective(model.train(), images, texts, torch.arange(40), 0)
    assert losses["triplet"].isfinite()
    assert 0 < model.state_dict()["cross_attention.threshold"] < 1
    assert 0 < model.state_dict()["cross_attention.safe_threshold"] < 1
