from dataclasses import replace

import pytest

from diverset.errors import OptionError
from diverset.reproduce.claims import decide
from diverset.reproduce.run_studies import run_studies
from diverset.reproduce.studies import elements
from diverset.reproduce.variants import both_sets, with_changes

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


def test_elements_are_evaluated_alone_and_left_out(experiment, read_page):
    assert run_studies("elements", experiment) == 0
    text, numbers = read_page(experiment, "elements")
    assert len(numbers["variants"]) == 1 + 2 * (4 + 4)
    assert "| image element 4 alone | 309.6 |" in text
    alone = [variant["mean"]["rsum"] for variant in numbers["variants"][1:5]]
    assert alone == sorted(alone, reverse=True)  # sorted in each seed, so also in the mean
    assert len(numbers["by_element"]) == 2
    for run in numbers["by_element"].values():
        assert len(run["text"]["without"]) == 4
    assert (experiment.out / "elements.png").exists()


def test_sets_of_one_element_are_rejected(experiment):
    single = replace(experiment, recipe=with_changes(experiment.recipe, both_sets(size=1)))
    with pytest.raises(OptionError, match="two or more elements"):
        run_studies("elements", single)


@pytest.mark.parametrize(
    ("seeds", "answer"),
    [
        ([(491, 486, 485, 310), (490, 487, 484, 320)], "holds"),  # as in the paper
        ([(491, 486, 485, 484), (490, 488, 485, 483)], "does not hold"),  # only sorted
    ],
)
def test_far_worse_means_more_than_the_others_differ(seeds, answer):
    measured = []
    for alone in seeds:
        side = {"alone": list(alone), "without": list(alone)}
        measured.append({"all elements": 500.0, "image": side, "text": side})
    claim = next(claim for claim in elements.claims(4, 4) if "far worse" in claim.text)
    assert decide(claim, elements.gap_results(measured)).answer == answer
