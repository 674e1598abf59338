import shutil
from dataclasses import make_dataclass, replace
from pathlib import Path

import pytest

from diverset.cli import main
from diverset.errors import DataError
from diverset.recipe.config import DataConfig, LossConfig, SourceConfig
from diverset.reproduce.runs import run_digest
from diverset.reproduce.variants import with_changes


def test_another_option_gives_another_digest(experiment):
    fewer = with_changes(experiment.recipe, {"data.limit": 3})
    assert run_digest(fewer) != run_digest(experiment.recipe)


def test_an_option_added_later_does_not_change_the_digest_at_its_default(experiment):
    later = make_dataclass(
        "LossConfig", [("added_later", float, 0.0)], bases=(LossConfig,), frozen=True
    )
    recipe = replace(experiment.recipe, loss=later(**vars(experiment.recipe.loss)))
    assert run_digest(recipe) == run_digest(experiment.recipe)
    recipe = replace(recipe, loss=replace(recipe.loss, added_later=1.0))
    assert run_digest(recipe) != run_digest(experiment.recipe)


def test_several_sources_have_a_digest_wherever_the_data_is(experiment, tmp_path):
    scenes = Path(experiment.recipe.data.root)
    shutil.copytree(scenes, tmp_path / "moved" / scenes.name)
    source = SourceConfig(
        name="scenes", root=scenes.name, file="dataset_scenes.json", images="images"
    )
    data = DataConfig(root=str(scenes.parent), sources=(source,), min_count=1)
    recipe = replace(experiment.recipe, data=data)
    moved = with_changes(recipe, {"data.root": str(tmp_path / "moved")})
    assert run_digest(moved) == run_digest(recipe) != run_digest(experiment.recipe)
    heavier = replace(data, sources=(replace(source, weight=2.0),))
    assert run_digest(replace(recipe, data=heavier)) != run_digest(recipe)


def test_other_captions_give_another_digest(experiment, tmp_path):
    file = Path(experiment.recipe.data.root) / "dataset_scenes.json"
    text = file.read_text()
    first = text.index('"raw":"') + len('"raw":"')
    (tmp_path / file.name).write_text(text[:first] + "Other " + text[first:])
    other = with_changes(experiment.recipe, {"data.root": str(tmp_path)})
    assert run_digest(other) != run_digest(experiment.recipe)


def test_train_without_scenes_says_how_to_draw_them(tmp_path, capsys):
    recipe = Path(__file__).parents[2] / "recipes" / "scenes.yaml"
    args = ["train", str(recipe), "--out", str(tmp_path / "run"), "--data.root", str(tmp_path)]
    assert main(args) == 2
    assert "python -m diverset.reproduce.scenes" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_missing_data_is_named(experiment, tmp_path):
    missing = {"data.root": str(tmp_path), "data.file": "dataset_coco.json"}
    with pytest.raises(DataError, match=r"dataset_coco\.json"):
        run_digest(with_changes(experiment.recipe, missing))
