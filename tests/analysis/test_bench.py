"""Which run a row has: rows resolve against every recipe, and folders are found again."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from diverset.analysis import architecture, hyperparameters, similarity, slot_attention
from diverset.analysis.bench import Bench, digest, open_bench, with_scenes
from diverset.analysis.methods import methods
from diverset.analysis.rows import Row, both_sets, changed
from diverset.config import to_dict
from diverset.data import Vocabulary
from diverset.errors import DataError
from diverset.model import Model
from diverset.training.command import parse_recipe
from diverset.training.run import read_recipe
from diverset.training.settings import DataConfig, Recipe

RECIPES = Path(__file__).parents[2] / "recipes"
FILES = sorted([*RECIPES.glob("flickr8k_*.yaml"), RECIPES / "scenes.yaml"])
ROWS = [
    *(similarity.MIL, similarity.MP, similarity.CHAMFER, similarity.SMOOTH),
    *(architecture.PIE_NET, architecture.TRANSFORMER, architecture.SLOTS),
    *(slot_attention.RANDOM, slot_attention.GRU, slot_attention.LOCAL, slot_attention.NONE),
    *(row for rows in hyperparameters.ROWS.values() for row in rows),
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_rows_resolve_against_every_recipe(file):
    recipe = read_recipe(file)
    if recipe.model.image_set.kind == "pooled":  # sets of one: K cannot be changed
        rows = [*methods(recipe)]
    else:
        rows = [*ROWS, *methods(recipe)]
    for row in rows:
        assert changed(recipe, row.changes).data == recipe.data


def test_methods_on_flickr8k_are_the_recipes_beside_it():
    recipe = read_recipe(RECIPES / "flickr8k_minilm.yaml")
    named = {
        "PVSE": "pvse",
        "PCME": "pcme",
        "SCAN": "scan",
        "VSE++": "vsepp",
        "VSE-infinity": "vse_infinity",
        "ours, K = 1": "minilm_k1",
        "ours (sets)": "minilm",
    }
    for row in methods(recipe):
        beside = read_recipe(RECIPES / f"flickr8k_{named[row.name]}.yaml")
        ours = changed(recipe, row.changes)
        if row.sibling:  # their set modules have no inner width, SCAN's no size either
            unused = both_sets(inner_width=1) | (both_sets(size=1) if row.name == "SCAN" else {})
            ours, beside = changed(ours, unused), changed(beside, unused)
        assert replace(ours, about=beside.about) == beside, row.name


def test_the_folder_is_found_again_and_shared(bench, place, tmp_path):
    base = bench.run_of(similarity.SMOOTH, 0)
    assert base.folder == bench.run_of(architecture.SLOTS, 0).folder
    assert base.folder == bench.run_of(Row("K = 4", hyperparameters.ROWS["K"][3].changes), 0).folder
    others = {bench.run_of(row, seed).folder for row in ROWS for seed in (0, 1)}
    assert len(others) == 2 * 26  # 30 rows, of which five are the recipe itself
    shutil.copytree(place / "scenes", tmp_path / "moved")
    moved = open_bench(
        str(bench.file),
        ["--data.root", str(tmp_path / "moved")],
        bench.runs,
        None,
        "val",
        bench.store,
    )
    assert moved.run_of(similarity.SMOOTH, 0).folder == base.folder  # data may move
    assert moved.out == Path("results") / "tiny"
    fewer = changed(bench.recipe, {"data.limit": 3})
    assert digest(fewer) != digest(bench.recipe)


def test_options_at_their_defaults_do_not_name_a_run(bench, monkeypatch):
    before = digest(bench.recipe)
    plain = to_dict(bench.recipe)
    plain["loss"]["added_later"] = 0.0
    defaults = to_dict(Recipe())
    defaults["loss"]["added_later"] = 0.0
    seen = iter([plain, defaults])
    monkeypatch.setattr("diverset.analysis.bench.to_dict", lambda recipe: next(seen))
    plain["about"], plain["data"]["root"] = "", "."
    assert digest(bench.recipe) == before


def test_other_captions_are_another_run(bench, tmp_path):
    file = Path(bench.recipe.data.root) / "dataset_scenes.json"
    (tmp_path / "images").mkdir()
    with pytest.raises(DataError):
        digest(changed(bench.recipe, {"data.root": str(tmp_path / "nowhere")}))
    text = file.read_text()
    first = text.index('"raw":"') + len('"raw":"')
    (tmp_path / file.name).write_text(text[:first] + "Other " + text[first:])
    assert digest(changed(bench.recipe, {"data.root": str(tmp_path)})) != digest(bench.recipe)


def test_a_sibling_recipe_is_taken_under_equal_backbones_only(tmp_path):
    for name in ("minilm", "pvse", "bigru"):
        shutil.copy(RECIPES / f"flickr8k_{name}.yaml", tmp_path)
    text = (tmp_path / "flickr8k_pvse.yaml").read_text().replace("margin: 0.1", "margin: 0.3")
    (tmp_path / "flickr8k_pvse.yaml").write_text(text)
    for name, margin in (("minilm", 0.3), ("bigru", 0.1)):
        file = tmp_path / f"flickr8k_{name}.yaml"
        bench = Bench(file, (), parse_recipe(str(file), ()), tmp_path, tmp_path, tmp_path)
        row = next(one for one in methods(bench.recipe) if one.name == "PVSE")
        assert bench.recipe_of(row).loss.margin == margin


def test_an_override_leaves_a_method_its_own_options(tmp_path):
    file = RECIPES / "flickr8k_minilm.yaml"
    given = ("--model.image_set.size", "6", "--loss.margin=0.3", "--train.epochs", "2")
    bench = Bench(file, given, parse_recipe(str(file), given), tmp_path, tmp_path, tmp_path)
    for row in methods(bench.recipe):
        if row.name in ("VSE++", "PVSE"):
            found = bench.recipe_of(row)
            own = {"VSE++": (1, 0.3), "PVSE": (2, 0.1)}[row.name]
            assert (found.model.image_set.size, found.loss.margin) == own
            assert found.train.epochs == 2


def test_scenes_are_drawn_where_they_are_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("diverset.analysis.bench.TRAIN", 2)
    monkeypatch.setattr("diverset.analysis.bench.VAL", 1)
    monkeypatch.setattr("diverset.analysis.bench.TEST", 1)
    asked = DataConfig(file="dataset_scenes.json", images="images")
    found = with_scenes(asked, tmp_path / "scenes")
    assert found.root == str(tmp_path / "scenes")
    assert len(list((tmp_path / "scenes" / "images").iterdir())) == 4
    other = DataConfig(file="dataset_flickr8k.json")
    assert with_scenes(other, tmp_path / "elsewhere") is other


def test_every_row_builds_a_model(bench):
    vocabulary = Vocabulary.build(["a dog"], min_count=1)
    for row in [*ROWS, *methods(bench.recipe)]:
        assert Model(changed(bench.recipe, row.changes).model, vocabulary)
