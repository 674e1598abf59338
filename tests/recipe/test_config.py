"""Recipes with values out of range, or options that do not fit each other, are refused."""

from dataclasses import replace

import pytest

from diverset.config import from_dict
from diverset.errors import OptionError
from diverset.recipe.config import (
    DataConfig,
    DistillConfig,
    LossConfig,
    OptimConfig,
    Recipe,
    TrainConfig,
)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DataConfig(format="tsv"), "data.format is 'tsv'"),
        (lambda: DataConfig(drop_words=1.0), "data.drop_words is 1.0"),
        (lambda: DataConfig(short_texts=1.0), "data.short_texts is 1.0"),
        (lambda: DataConfig(crop_scale=0.0), "data.crop_scale is 0.0"),
        (lambda: LossConfig(kind="hinge"), "loss.kind is 'hinge'"),
        (lambda: LossConfig(start="warm"), "loss.start is 'warm'.* contrastive, or null for none"),
        (lambda: LossConfig(smoothing=0.5, soft_labels=0.5), "leave something for the match"),
        (lambda: OptimConfig(lr=0.0), "optim.lr is 0.0"),
        (lambda: OptimConfig(schedule="linear"), "optim.schedule is 'linear'"),
        (lambda: TrainConfig(batch_size=1), "no negatives"),
        (lambda: TrainConfig(epochs=0), "train.epochs is 0"),
        (lambda: TrainConfig(patience=2, evaluate_every=3), "train.patience is 2, but"),
        (lambda: TrainConfig(precision="bf16-mixed"), "choose one of: float32, bfloat16, float16"),
    ],
)
def test_values_out_of_range_are_named(make, message):
    with pytest.raises(OptionError, match=message):
        make()


def test_an_empty_text_is_not_the_same_as_none():
    for section, option in (("data", "file"), ("train", "initial_model"), ("loss", "start")):
        with pytest.raises(OptionError, match=f"{section}.{option} is ''; give a value, or null"):
            from_dict(Recipe, {section: {option: ""}})


def test_options_that_exclude_each_other():
    plain = Recipe()
    with pytest.raises(OptionError, match="has no alpha"):
        mil = replace(plain.model, similarity=replace(plain.model.similarity, kind="mil"))
        Recipe(model=mil, loss=LossConfig(alpha_epochs=2))
    with pytest.raises(OptionError, match="distill.runs"):
        Recipe(loss=LossConfig(kind="soft_contrastive"), distill=DistillConfig(runs="a"))
    with pytest.raises(OptionError, match="teachers encode captions only"):
        Recipe(
            data=DataConfig(short_texts=0.3),
            loss=LossConfig(contrastive=1.0),
            distill=DistillConfig(runs="a"),
        )
    with pytest.raises(OptionError, match="short texts take part in InfoNCE only"):
        Recipe(data=DataConfig(short_texts=0.3))
    with pytest.raises(OptionError, match="short texts take part in InfoNCE only"):
        Recipe(loss=LossConfig(mask_related=True))
