from dataclasses import replace

import pytest

from diverset.reproduce.run_studies import run_studies
from diverset.reproduce.studies import STUDIES

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


@pytest.mark.slow
def test_k_t_and_alpha_share_the_run_of_the_recipe(experiment, read_page):
    experiment = replace(experiment, seeds=1)
    assert len(STUDIES["hyperparameters"].runs(experiment)) == 17  # 19 with 3 equal to the recipe
    assert run_studies("hyperparameters", experiment) == 0
    text, numbers = read_page(experiment, "hyperparameters")
    assert len(numbers["variants"]) == 6 + 6 + 7 and "500.8" in text
    assert {claim["answer"] for claim in numbers["claims"]} == {"not decided"}  # one seed
    assert (experiment.out / "hyperparameters.png").exists()
