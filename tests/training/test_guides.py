"""Losses that ask others: soft labels and teachers; and sets of different sizes, annealed alpha."""

import json
from dataclasses import replace

import pytest
import torch
from tiny_networks import save_bert, scenes_recipe
from torch.nn import functional as F

from diverset import Model, Vocabulary
from diverset.data.scenes import ScenesOptions, write_scenes
from diverset.errors import OptionError
from diverset.evaluation import Member
from diverset.losses import distillation, off_global, within_set
from diverset.similarity import smooth_chamfer
from diverset.training.checkpoint import latest_checkpoint
from diverset.training.command import train
from diverset.training.encoding import encode_split
from diverset.training.evaluating import evaluate, open_run
from diverset.training.guides import Guides, caption_vectors, open_teacher
from diverset.training.objective import Objective
from diverset.training.opening import open_split, read_split
from diverset.training.settings import DataConfig, DistillConfig, LossConfig, Recipe
from diverset.types import EmbeddingSets

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")
WORDS = Vocabulary.build(["a dog", "a cat"], 1)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, train=8, val=4, test=4, options=ScenesOptions(size=32))
    return folder


def sets(count: int, size: int) -> EmbeddingSets:
    slots, pooled = torch.randn(count, size, 8), torch.randn(count, 8)
    return EmbeddingSets(F.normalize(slots, dim=-1), slots, pooled=pooled)


def small_model() -> Model:
    asked = scenes_recipe("x").model
    return Model(replace(asked, image=replace(asked.image, trained_blocks=0)), WORDS)


def test_hints_of_a_batch():
    vectors = F.normalize(torch.randn(6, 4), dim=-1)
    teachers = [
        Member(sets(3, 2).elements, sets(6, 3).elements, "smooth_chamfer", {"alpha": alpha})
        for alpha in (4.0, 16.0)
    ]
    images, texts = torch.tensor([2, 0]), torch.tensor([5, 1, 0])
    found = Guides(vectors.half(), teachers).of(images, texts)
    torch.testing.assert_close(found.alike, vectors[texts] @ vectors[texts].T, atol=2e-3, rtol=0)
    parts = [smooth_chamfer(t.images[images], t.texts[texts], **t.options) for t in teachers]
    torch.testing.assert_close(found.taught, (parts[0] + parts[1]) / 2)
    nothing = Guides().of(images, texts)
    assert nothing.alike is None and nothing.taught is None


def test_parts_of_the_objective_with_sets_of_different_sizes():
    images, texts = sets(3, 4), sets(6, 2)
    owners = torch.tensor([0, 0, 1, 1, 2, 2])
    loss = LossConfig(off_global=0.5, off_global_margin=0.1, within_set=0.25, soft_labels=0.2)
    guides = Guides(torch.randn(6, 4), [Member(images.elements, texts.elements)])
    hints = guides.of(torch.arange(3), torch.arange(6))
    model = small_model()
    for kind in ("triplet", "contrastive"):
        chosen = replace(loss, kind=kind, contrastive=1.0, gram_diversity=0.1)
        objective = Objective(chosen, DistillConfig(weight=3.0))
        parts = objective(model, images, texts, owners, 0, hints)
        assert all(part.isfinite() for part in parts.values())
        pushed = sum(off_global(one.elements, one.pooled, 0.1) for one in (images, texts))
        torch.testing.assert_close(parts["off_global"], 0.5 * pushed)
        pairs = within_set(images.elements) + within_set(texts.elements)
        torch.testing.assert_close(parts["within_set"], 0.25 * pairs)
        scores = model.score(images.elements, texts.elements)
        torch.testing.assert_close(
            parts["distillation"], 3 * distillation(scores, hints.taught, 0.05)
        )
    without = replace(images, pooled=None)
    with pytest.raises(OptionError, match="loss.off_global needs"):
        Objective(loss)(model, without, texts, owners, 0)


def test_alpha_grows_to_the_models_own():
    model, images, texts = small_model(), sets(3, 2), sets(3, 2)
    owners = torch.arange(3)
    loss = LossConfig(kind="contrastive", mmd=0, diversity=0, alpha_start=1.0, alpha_epochs=4)
    found = [
        float(Objective(loss)(model, images, texts, owners, epoch)["contrastive"])
        for epoch in (0, 2, 4)
    ]
    from diverset.losses import contrastive

    wanted = [
        float(contrastive(smooth_chamfer(images.elements, texts.elements, alpha), owners))
        for alpha in (1.0, 4.0, 16.0)
    ]
    assert found == pytest.approx(wanted)


def test_options_that_do_not_go_together():
    plain = Recipe()
    with pytest.raises(OptionError, match="has no alpha"):
        mil = replace(plain.model, similarity=replace(plain.model.similarity, kind="mil"))
        Recipe(model=mil, loss=LossConfig(alpha_epochs=2))
    with pytest.raises(OptionError, match="distill.runs"):
        Recipe(loss=LossConfig(kind="soft_contrastive"), distill=DistillConfig(runs="a"))
    with pytest.raises(OptionError, match="leave something for the match"):
        LossConfig(smoothing=0.5, soft_labels=0.5)


def test_vectors_are_means_of_a_frozen_network(scenes, tmp_path):
    from diverset.backbones import load_text_backbone

    bert = save_bert(tmp_path / "bert")
    data = DataConfig(root=str(scenes), file="dataset_scenes.json", images="images")
    collection = read_split(data, "val")
    found = caption_vectors(collection, f"transformers:{bert}", tmp_path / "cache")
    network = load_text_backbone(f"transformers:{bert}")
    with torch.no_grad():
        for place in (0, 7):
            states = network(network.tokenize([collection.captions[place]])).values[0]
            wanted = F.normalize(states.mean(dim=0), dim=0)
            torch.testing.assert_close(found[place].float(), wanted, atol=2e-2, rtol=0)


@pytest.mark.slow
def test_a_student_of_two_teachers(scenes, tmp_path):
    cache = tmp_path / "cache"
    for seed in (0, 1):
        train(scenes_recipe(scenes, epochs=1, seed=seed), tmp_path / f"t{seed}", cache, "cpu")
    runs = f"{tmp_path / 't0'}, {tmp_path / 't1'}"
    bert = save_bert(tmp_path / "bert")
    asked = scenes_recipe(scenes, epochs=2, seed=2)
    chosen = replace(
        asked,
        model=replace(
            asked.model,
            image_set=replace(asked.model.image_set, size=3),
            text_set=replace(asked.model.text_set, size=1),
        ),
        distill=DistillConfig(runs=runs, weight=2.0),
        loss=replace(
            asked.loss,
            contrastive=1.0,
            soft_labels=0.2,
            soft_backbone=f"transformers:{bert}",
            within_set=0.1,
            off_global=0.1,
            alpha_epochs=1,
        ),
    )
    train(chosen, tmp_path / "student", cache, "cpu")
    stored = latest_checkpoint(tmp_path / "student" / "checkpoints")["model"]
    assert all(one.isfinite().all() for one in stored.values())
    report = evaluate([str(tmp_path / "student"), str(tmp_path / "t0")], cache=cache)
    assert report.n_images == 4
    model, data = open_run(str(tmp_path / "t0"))
    split = open_split(data, "train", model.architecture, model.vocabulary, cache, model=model)
    images, texts = encode_split(model, split)
    stored = open_teacher(str(tmp_path / "t0"), data, split.collection, cache)
    torch.testing.assert_close(stored.images.float(), images, atol=1e-3, rtol=0)
    torch.testing.assert_close(stored.texts.float(), texts, atol=1e-3, rtol=0)
    lines = (tmp_path / "student" / "log.jsonl").read_text().splitlines()
    assert any("val" in json.loads(line) for line in lines)
    assert len(list(cache.glob("teacher-*.safetensors"))) == 2
