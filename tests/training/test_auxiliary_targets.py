"""Targets from frozen backbones and finished runs."""

import json
from dataclasses import replace

import pytest
import torch
from tiny_networks import save_bert, scenes_recipe
from torch.nn import functional as F

from diverset.backbones import load_text_backbone
from diverset.evaluation import Member
from diverset.evaluation.open_run import open_run
from diverset.evaluation.run import evaluate
from diverset.recipe.config import DataConfig, DistillConfig
from diverset.recipe.datasets import read_split
from diverset.recipe.encode import encode_split
from diverset.recipe.splits import open_split
from diverset.reproduce.scenes import ScenesOptions, write_scenes
from diverset.similarity import smooth_chamfer
from diverset.training.auxiliary_targets import (
    AuxiliaryTargets,
    BatchTargets,
    caption_vectors,
    open_teacher,
)
from diverset.training.checkpoint import latest_checkpoint
from diverset.training.train import train
from diverset.types import EmbeddingSets

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, train=8, val=4, test=4, options=ScenesOptions(size=32))
    return folder


def sets(count: int, size: int) -> EmbeddingSets:
    slots, pooled = torch.randn(count, size, 8), torch.randn(count, 8)
    return EmbeddingSets(F.normalize(slots, dim=-1), slots, pooled=pooled)


def test_a_batch_gets_the_targets_of_its_own_rows():
    vectors = F.normalize(torch.randn(6, 4), dim=-1)
    teachers = [
        Member(sets(3, 2).elements, sets(6, 3).elements, "smooth_chamfer", {"alpha": alpha})
        for alpha in (4.0, 16.0)
    ]
    images, texts = torch.tensor([2, 0]), torch.tensor([5, 1, 0])
    targets = AuxiliaryTargets(vectors.half(), teachers).of_batch(images, texts)
    cosines = vectors[texts] @ vectors[texts].T
    torch.testing.assert_close(targets.caption_similarity, cosines, atol=2e-3, rtol=0)
    scores = [smooth_chamfer(t.images[images], t.texts[texts], **t.options) for t in teachers]
    torch.testing.assert_close(targets.teacher_scores, (scores[0] + scores[1]) / 2)
    assert AuxiliaryTargets().of_batch(images, texts) == BatchTargets()


def test_caption_vectors_are_mean_token_states(scenes, tmp_path):
    bert = save_bert(tmp_path / "bert")
    data = DataConfig(root=str(scenes), file="dataset_scenes.json", images="images")
    dataset = read_split(data, "val")
    vectors = caption_vectors(dataset.captions, f"transformers:{bert}", tmp_path / "cache")
    backbone = load_text_backbone(f"transformers:{bert}")
    with torch.no_grad():
        for row in (0, 7):
            states = backbone(backbone.tokenize([dataset.captions[row]])).values[0]
            expected = F.normalize(states.mean(dim=0), dim=0)
            torch.testing.assert_close(vectors[row].float(), expected, atol=2e-2, rtol=0)


@pytest.mark.slow
def test_a_student_of_two_teachers(scenes, tmp_path):
    cache = tmp_path / "cache"
    for seed in (0, 1):
        train(scenes_recipe(scenes, epochs=1, seed=seed), tmp_path / f"t{seed}", cache, "cpu")
    runs = f"{tmp_path / 't0'}, {tmp_path / 't1'}"
    bert = save_bert(tmp_path / "bert")
    base = scenes_recipe(scenes, epochs=2, seed=2)
    student = replace(
        base,
        model=replace(
            base.model,
            image_set=replace(base.model.image_set, size=3),
            text_set=replace(base.model.text_set, size=1),
        ),
        distill=DistillConfig(runs=runs, weight=2.0),
        loss=replace(
            base.loss,
            contrastive=1.0,
            soft_labels=0.2,
            soft_backbone=f"transformers:{bert}",
            within_set=0.1,
            off_global=0.1,
            alpha_epochs=1,
        ),
    )
    train(student, tmp_path / "student", cache, "cpu")
    stored = latest_checkpoint(tmp_path / "student" / "checkpoints")["model"]
    assert all(weight.isfinite().all() for weight in stored.values())
    report = evaluate([str(tmp_path / "student"), str(tmp_path / "t0")], cache=cache)
    assert report.n_images == 4
    model, data = open_run(str(tmp_path / "t0"))
    split = open_split(data, "train", model, cache)
    images, texts = encode_split(model, split)
    stored = open_teacher(str(tmp_path / "t0"), data, split.dataset, cache)
    torch.testing.assert_close(stored.images.float(), images, atol=1e-3, rtol=0)
    torch.testing.assert_close(stored.texts.float(), texts, atol=1e-3, rtol=0)
    lines = (tmp_path / "student" / "log.jsonl").read_text().splitlines()
    assert any("val" in json.loads(line) for line in lines)
    assert len(list(cache.glob("teacher-*.safetensors"))) == 2
