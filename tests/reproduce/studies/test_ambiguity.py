import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from diverset.errors import OptionError
from diverset.recipe.config import DataConfig
from diverset.reproduce.run_studies import run_studies
from diverset.reproduce.studies import ambiguity

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


def test_the_page_compares_sets_with_one_vector_for_each_number_of_photographs(
    experiment, read_page, monkeypatch
):
    monkeypatch.setattr(ambiguity, "SIZES", {1: (1, 4), 2: (1, 2, 4)})
    experiment = replace(experiment, recipe=photographs(experiment.recipe))
    assert run_studies("ambiguity", experiment) == 0
    text, numbers = read_page(experiment, "ambiguity")
    assert [variant["name"] for variant in numbers["variants"]] == [
        "n = 1, K = 1",
        "n = 1, K = 4",
        "n = 2, K = 1",
        "n = 2, K = 2",
        "n = 2, K = 4",
    ]
    assert all(len(variant["values"]["rsum"]) == 2 for variant in numbers["variants"])
    means = {variant["name"]: variant["values"]["rsum"] for variant in numbers["variants"]}
    assert list(numbers["paired_bootstrap"]) == ["n = 1, K = 4", "n = 2, K = 2", "n = 2, K = 4"]
    for name, seeds in numbers["paired_bootstrap"].items():
        one = means[name[: name.index("K")] + "K = 1"]
        for seed in seeds:
            expected = means[name][seed["run_seed"]] - one[seed["run_seed"]]
            assert seed["difference"] == pytest.approx(expected)
    assert "sets of 4 beat one vector on collages of 2" in text
    assert (experiment.out / "ambiguity.png").exists()


def photographs(recipe):
    """The recipe with the generated scenes under another name, which count as photographs."""
    folder = Path(recipe.data.root)
    shutil.copy(folder / recipe.data.file, folder / "dataset_photos.json")
    return replace(recipe, data=replace(recipe.data, file="dataset_photos.json"))


def test_generated_scenes_are_rejected(experiment):
    with pytest.raises(OptionError, match="photographs"):
        run_studies("ambiguity", experiment)


def test_a_recipe_without_images_is_rejected(experiment):
    regions = replace(experiment.recipe, data=DataConfig(format="precomp"))
    with pytest.raises(OptionError, match="collages"):
        run_studies("ambiguity", replace(experiment, recipe=regions))


def test_another_split_than_validation_is_rejected(experiment):
    other = replace(experiment, recipe=photographs(experiment.recipe), split="test")
    with pytest.raises(OptionError, match="split is 'test'.*--split val"):
        run_studies("ambiguity", other)
