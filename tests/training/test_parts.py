"""Batches, sources, rates, averages, checkpoints: the parts of training one by one."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from diverset.errors import CheckpointError, DataError, OptionError
from diverset.training.average import Average
from diverset.training.batches import Batches
from diverset.training.checkpoint import latest_checkpoint, save_checkpoint
from diverset.training.memory import keep_freed_memory
from diverset.training.objective import Objective
from diverset.training.opening import open_split
from diverset.training.optim import make_optimizer, rate_factor, set_rates
from diverset.training.run import JsonLog
from diverset.training.settings import (
    DataConfig,
    LossConfig,
    OptimConfig,
    Recipe,
    TrainConfig,
)
from diverset.training.sources import PictureSource, RegionSource, TokenSource, WordSource
from diverset.types import EmbeddingSets


class Numbers:
    """A source that gives back the indices it was asked for."""

    def __len__(self):
        return 100

    def batch(self, indices, chance=None):
        return torch.as_tensor(np.asarray(indices))


def batches(**changes):
    by_image = [np.array([2 * i, 2 * i + 1]) for i in range(10)]
    given = {"images": Numbers(), "texts": Numbers(), "by_image": by_image, "size": 4, "seed": 0}
    return Batches(**given | changes)


def test_an_epoch_sees_every_image_once_with_all_its_captions():
    seen = []
    for batch in batches().walk():
        captions = batch.texts.tolist()
        for caption, owner in zip(captions, batch.owners.tolist(), strict=True):
            assert caption // 2 == int(batch.images[owner])
        assert sorted(captions) == sorted(2 * int(i) + j for i in batch.images for j in (0, 1))
        seen += batch.images.tolist()
    assert sorted(seen) == list(range(10))


def test_batches_depend_on_seed_epoch_and_number_only():
    first = [batch.images.tolist() for batch in batches().walk()]
    assert first == [batch.images.tolist() for batch in batches().walk()]
    assert first[1:] == [batch.images.tolist() for batch in batches().walk(first=1)]
    assert first != [batch.images.tolist() for batch in batches(epoch=1).walk()]
    assert first != [batch.images.tolist() for batch in batches(seed=1).walk()]
    assert first == [batch.images.tolist() for batch in batches().walk(workers=2)]


def test_processes_share_a_batch():
    whole = batches()[0].images.tolist()
    parts = [batches(rank=rank, world=2)[0].images.tolist() for rank in (0, 1)]
    assert parts[0] + parts[1] == whole


def test_a_single_left_over_image_is_left_out():
    assert len(batches(size=3)) == 3 and len(batches(size=4)) == 3
    assert len(batches(captions=1)[0].texts) == 4


def test_words_are_dropped_in_training_only():
    source = WordSource([[1, 4, 5, 6, 7, 8, 2]] * 20, 30, drop=0.5)
    plain = source.batch(range(20))
    assert (plain.values == torch.tensor([1, 4, 5, 6, 7, 8, 2])).all()
    dropped = source.batch(range(20), np.random.default_rng(0))
    assert not torch.equal(dropped.values, plain.values)
    assert (dropped.values[:, 0] == 1).all()


def test_regions_and_tokens_are_dropped_in_training_only():
    source = RegionSource([np.ones((9, 4), np.float32)] * 3, drop=0.5)
    assert source.batch([0, 1]).mask.all()
    assert not source.batch([0, 1], np.random.default_rng(0)).mask.all()
    tokens = TokenSource([torch.arange(9)] * 3, drop=0.5)
    assert tokens.batch([0]).values.shape == (1, 9)
    some = tokens.batch([0, 1, 2], np.random.default_rng(0))
    lengths = some.mask.sum(dim=1)
    assert lengths.max() < 9
    assert (some.values[:, 0] == 0).all()
    assert [int(row[length - 1]) for row, length in zip(some.values, lengths, strict=True)] == [
        8
    ] * 3


def test_a_broken_picture_is_named(tmp_path):
    Image.new("RGB", (40, 30)).save(tmp_path / "good.png")
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8\xff\xe0 cut off")
    from diverset.backbones import load_picture_backbone

    network = load_picture_backbone("small_cnn", 32)
    source = PictureSource.of([tmp_path / "good.png", tmp_path / "bad.jpg"], network, 0.5)
    assert source.batch([0]).shape == source.batch([0], np.random.default_rng(0)).shape
    with pytest.raises(DataError, match="bad.jpg"):
        source.batch([1])


def test_data_that_does_not_fit_the_model_is_named(tmp_path):
    np.save(tmp_path / "train_ims.npy", np.zeros((2, 3, 7), np.float32))
    (tmp_path / "train_caps.txt").write_text("a dog\n" * 10)
    data = DataConfig(format="precomp", root=str(tmp_path))
    with pytest.raises(DataError, match="7 wide, the model reads 2048"):
        open_split(data, "train", Recipe().model, None, tmp_path)
    (tmp_path / "train_caps.txt").write_text("a dog\n" * 9)
    with pytest.raises(DataError, match="9"):
        open_split(data, "train", Recipe().model, None, tmp_path)


def test_rates():
    cosine = OptimConfig(schedule="cosine", warmup_steps=10)
    factors = [rate_factor(step, 10, 10, cosine) for step in range(100)]
    assert factors[0] == pytest.approx(0.1) and factors[9] == 1.0
    assert factors[99] < 0.01 and factors[10:] == sorted(factors[10:], reverse=True)
    step = OptimConfig(schedule="step", step_epochs=2, step_factor=0.1)
    assert [rate_factor(n, 5, 6, step) for n in (0, 9, 10, 29)] == pytest.approx([1, 1, 0.1, 0.01])
    assert rate_factor(7, 5, 6, OptimConfig(schedule="constant")) == 1.0


def test_groups_have_their_own_rates():
    names = ["image_encoder.backbone.a", "image_encoder.sets.b", "text_encoder.sets.c", "rest.d"]
    named = [(name, nn.Parameter(torch.zeros(1))) for name in names]
    chosen = OptimConfig(lr=1.0, set_scale=0.1, image_backbone_scale=0.01)
    optimizer = make_optimizer(named, chosen)
    set_rates(optimizer, 0.5)
    rates = {group["name"]: group["lr"] for group in optimizer.param_groups}
    assert rates == pytest.approx(
        {"image_encoder.backbone": 0.005, "image_encoder.sets": 0.05, "text_encoder.sets": 0.05,
         "rest": 0.5}
    )  # fmt: skip


def test_the_average_swaps_in_and_out():
    module = nn.Linear(2, 2)
    average = Average(module, decay=0.9)
    before = module.weight.detach().clone()
    with torch.no_grad():
        module.weight.add_(1.0)
    average.update(module)
    trained = module.weight.detach().clone()
    average.swap(module)
    expected = before + (trained - before) * (1 - 1 / 11)
    torch.testing.assert_close(module.weight.detach(), expected)
    average.swap(module)
    assert torch.equal(module.weight, trained)


def test_two_checkpoints_are_kept(tmp_path):
    assert latest_checkpoint(tmp_path) is None
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, {"step": step, "weights": torch.ones(2)})
    assert len(list(tmp_path.iterdir())) == 2
    assert latest_checkpoint(tmp_path)["step"] == 3


def test_a_damaged_only_checkpoint_says_so(tmp_path):
    file = save_checkpoint(tmp_path, 1, {"step": 1})
    file.write_bytes(b"")
    with pytest.raises(CheckpointError, match="damaged.*start the run anew"):
        latest_checkpoint(tmp_path)


def test_the_log_is_cut_back_to_the_checkpoint(tmp_path):
    file = tmp_path / "log.jsonl"
    log = JsonLog(file, 0)
    for step in (1, 2, 3):
        log.write(step=step)
    with open(file, "a") as stream:
        stream.write('{"step": 4, "cut')
    JsonLog(file, 2)
    assert file.read_text() == '{"step": 1}\n{"step": 2}\n'


def sets():
    slots = torch.randn(2, 2, 4)
    return EmbeddingSets(nn.functional.normalize(slots, dim=-1), slots)


def test_pcme_needs_gaussians():
    objective = Objective(LossConfig(kind="soft_contrastive"))
    with pytest.raises(OptionError, match="gaussian"):
        objective(None, sets(), sets(), torch.tensor([0, 1]), 0)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: DataConfig(format="tsv"), "data.format is 'tsv'"),
        (lambda: DataConfig(drop_words=1.0), "data.drop_words is 1.0"),
        (lambda: DataConfig(crop_scale=0.0), "data.crop_scale is 0.0"),
        (lambda: LossConfig(kind="hinge"), "loss.kind is 'hinge'"),
        (lambda: LossConfig(start="warm"), "loss.start is 'warm'"),
        (lambda: OptimConfig(lr=0.0), "optim.lr is 0.0"),
        (lambda: OptimConfig(schedule="linear"), "optim.schedule is 'linear'"),
        (lambda: TrainConfig(batch_size=1), "no negatives"),
        (lambda: TrainConfig(epochs=0), "train.epochs is 0"),
        (lambda: TrainConfig(precision="fp8"), "train.precision is 'fp8'"),
    ],
)
def test_bad_settings_are_named(make, says):
    with pytest.raises(OptionError, match=says):
        make()


def test_memory_can_be_kept():
    assert keep_freed_memory() in (True, False)
