from pathlib import Path

import pytest

from diverset.config import CROSS_ATTENTION
from diverset.errors import OptionError
from diverset.recipe.run_folder import read_recipe
from diverset.reproduce.methods import MEANS, methods, with_method
from diverset.reproduce.paper_numbers import PAPER
from diverset.reproduce.variants import with_changes

RECIPES = Path(__file__).parents[2] / "recipes"
FLICKR8K = read_recipe(RECIPES / "flickr8k_minilm.yaml")


def test_every_row_of_the_papers_tables_is_a_method():
    names = {variant.name for variant in methods(FLICKR8K)} | set(MEANS)
    for rows in PAPER.values():
        assert len(rows) == 11 and set(rows) <= names


def test_rsum_of_the_paper_is_the_sum_of_its_recalls():
    for rows in PAPER.values():
        for settings in rows.values():
            for *recalls, rsum in settings.values():
                if rsum is not None:
                    assert abs(sum(recalls) - rsum) < 0.45  # each is rounded, one misprinted


@pytest.mark.parametrize("name", ["flickr8k_minilm", "flickr8k_bigru", "scenes"])
def test_methods_keep_data_and_backbones(name):
    recipe = read_recipe(RECIPES / f"{name}.yaml")
    for variant in methods(recipe):
        changed = with_changes(recipe, variant.changes)
        assert changed.data == recipe.data and changed.optim == recipe.optim
        assert changed.model.dim == recipe.model.dim
        assert changed.model.image.backbone == recipe.model.image.backbone
        assert changed.model.text.kind == recipe.model.text.kind


def test_cross_attention_reads_all_local_features():
    for kind in CROSS_ATTENTION:
        model = with_method(FLICKR8K, kind.upper()).model
        assert model.similarity.kind == kind
        assert model.image_set.kind == model.text_set.kind == "local"


def test_the_control_has_sets_of_one_element():
    model = with_method(FLICKR8K, "ours, K = 1").model
    assert model.image_set.size == model.text_set.size == 1


def test_an_unknown_method_lists_the_known_ones():
    with pytest.raises(OptionError, match="VSRN.*NAAF.*ours"):
        with_method(FLICKR8K, "VRSN")
