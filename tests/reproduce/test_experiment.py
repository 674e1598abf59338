"""Variants resolve against every recipe, and runs are found again."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from diverset.data import Vocabulary
from diverset.model import Model
from diverset.recipe.run_folder import read_recipe
from diverset.reproduce.experiment import Experiment, open_experiment
from diverset.reproduce.methods import methods
from diverset.reproduce.runs import captions_digest
from diverset.reproduce.studies import architecture, hyperparameters, similarity, slot_attention
from diverset.reproduce.variants import with_changes
from diverset.training.train import parse_recipe

RECIPES = Path(__file__).parents[2] / "recipes"
FILES = sorted([*RECIPES.glob("flickr8k_*.yaml"), RECIPES / "scenes.yaml"])
VARIANTS = [
    *(similarity.MIL, similarity.MP, similarity.CHAMFER, similarity.SMOOTH),
    *(architecture.PIE_NET, architecture.TRANSFORMER, architecture.SLOTS),
    *(slot_attention.RANDOM, slot_attention.GRU, slot_attention.LOCAL, slot_attention.NONE),
    *(variant for group in hyperparameters.VARIANTS.values() for variant in group),
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_variants_resolve_against_every_recipe(file):
    recipe = read_recipe(file)
    has_sets = recipe.model.image_set.kind != "pooled"  # a pooled set has one element, K is fixed
    for variant in [*(VARIANTS if has_sets else []), *methods(recipe)]:
        assert with_changes(recipe, variant.changes).data == recipe.data


def test_every_variant_builds_a_model(experiment):
    vocabulary = Vocabulary.build(["a dog"], min_count=1)
    for variant in [*VARIANTS, *methods(experiment.recipe)]:
        assert Model(with_changes(experiment.recipe, variant.changes).model, vocabulary)


def test_equal_variants_of_different_studies_share_a_run(experiment):
    base = experiment.run_for(similarity.SMOOTH, 0)
    assert base.folder == experiment.run_for(architecture.SLOTS, 0).folder
    assert base.folder == experiment.run_for(hyperparameters.VARIANTS["K"][3], 0).folder
    folders = {experiment.run_for(variant, seed).folder for variant in VARIANTS for seed in (0, 1)}
    assert len(folders) == 2 * 26  # 30 variants, of which five are the recipe itself


def test_runs_are_found_again_after_the_data_moved(experiment, workspace, tmp_path):
    shutil.copytree(workspace / "scenes", tmp_path / "moved")
    moved = open_experiment(
        str(experiment.recipe_file),
        ["--data.root", str(tmp_path / "moved")],
        experiment.runs,
        None,
        "val",
        experiment.cache,
    )
    folders = [e.run_for(similarity.SMOOTH, 0).folder for e in (moved, experiment)]
    assert folders[0] == folders[1]
    assert moved.out == Path("results") / "tiny"


def test_a_methods_own_recipe_is_used_only_with_equal_backbones(tmp_path):
    for name in ("minilm", "bigru"):
        shutil.copy(RECIPES / f"flickr8k_{name}.yaml", tmp_path)
    text = (tmp_path / "flickr8k_minilm.yaml").read_text().replace("margin: 0.2", "margin: 0.3")
    (tmp_path / "flickr8k_pvse.yaml").write_text(text)
    for name, margin in (("minilm", 0.3), ("bigru", 0.1)):
        experiment = _open(tmp_path / f"flickr8k_{name}.yaml", (), tmp_path)
        pvse = next(v for v in methods(experiment.recipe) if v.name == "PVSE")
        assert experiment.recipe_for(pvse).loss.margin == margin


def test_an_override_does_not_replace_an_option_that_a_method_changes(tmp_path):
    overrides = ("--model.image_set.size", "6", "--loss.margin=0.3", "--train.epochs", "2")
    experiment = _open(RECIPES / "flickr8k_minilm.yaml", overrides, tmp_path)
    expected = {"VSE++": (1, 0.3), "PVSE": (2, 0.1)}
    for variant in methods(experiment.recipe):
        if variant.name in expected:
            recipe = experiment.recipe_for(variant)
            size_and_margin = (recipe.model.image_set.size, recipe.loss.margin)
            assert size_and_margin == expected[variant.name]
            assert recipe.train.epochs == 2


def _open(file, overrides, folder):
    recipe = parse_recipe(str(file), overrides)
    return Experiment(file, overrides, recipe, folder, folder, folder)


@pytest.mark.slow
def test_drawing_missing_scenes_does_not_rename_runs(tmp_path):
    experiment = open_experiment(
        str(RECIPES / "scenes.yaml"), [], tmp_path, None, "test", tmp_path / "cache"
    )
    assert experiment.recipe.data.root == str(tmp_path / "scenes")
    before = experiment.run_for(similarity.SMOOTH, 0)
    assert not (tmp_path / "scenes").exists()
    experiment.draw_missing_scenes()
    assert len(list((tmp_path / "scenes" / "images").iterdir())) == 2700
    captions_digest.cache_clear()
    assert experiment.run_for(similarity.SMOOTH, 0) == before


def test_scenes_are_not_drawn_for_other_datasets(experiment, tmp_path):
    changes = {"data.file": "other.json", "data.root": str(tmp_path / "other")}
    other = replace(experiment, recipe=with_changes(experiment.recipe, changes))
    other.draw_missing_scenes()
    assert not (tmp_path / "other").exists()
