"""Every study from end to end, on tiny scenes."""

import json
from dataclasses import replace

import pytest

from diverset.analysis.command import STUDIES, reproduce
from diverset.analysis.rows import both_sets, changed
from diverset.errors import OptionError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")
TRAINED = ["similarity", "architecture", "variance", "slot-attention", "comparison"]


def pages(bench, name):
    text = (bench.out / f"{name}.md").read_text()
    return text, json.loads((bench.out / f"{name}.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_study_writes_table_numbers_and_plot(name, bench, capsys):
    assert reproduce(name, bench) == 0
    text, numbers = pages(bench, name)
    assert all(len(row["values"]["rsum"]) == 2 for row in numbers["rows"])
    assert numbers["claims"] and all(one["claim"] in text for one in numbers["claims"])
    assert all(one["answer"] in text for one in numbers["claims"])
    assert f"]({name}.png)" in text
    for kind in ("png", "svg"):
        assert (bench.out / f"{name}.{kind}").stat().st_size > 5000
    assert str(bench.runs) not in text + json.dumps(numbers)
    capsys.readouterr()
    assert reproduce(name, bench) == 0  # a second call trains nothing
    said = capsys.readouterr().out
    assert "starting" not in said and f"{len(STUDIES[name].runs(bench))} of them done" in said


@pytest.mark.slow
def test_hyperparameters_share_the_base_run(bench):
    bench = replace(bench, seeds=1)
    assert reproduce("hyperparameters", bench) == 0
    text, numbers = pages(bench, "hyperparameters")
    assert len(numbers["rows"]) == 6 + 6 + 7 and "500.8" in text
    assert len(STUDIES["hyperparameters"].runs(bench)) == 17  # K = 4, T = 2, alpha = 16: the recipe
    assert {one["answer"] for one in numbers["claims"]} == {"not decided"}  # one seed decides none
    assert (bench.out / "hyperparameters.png").exists()


def test_elements_alone_and_left_out(bench):
    assert reproduce("elements", bench) == 0
    text, numbers = pages(bench, "elements")
    assert len(numbers["rows"]) == 1 + 2 * (4 + 4)
    assert "| image element 4 alone | 309.6 |" in text
    alone = [row["mean"]["rsum"] for row in numbers["rows"][1:5]]
    assert alone == sorted(alone, reverse=True)  # ranked in each seed, so in the mean
    by_element = numbers["by_element"]
    assert len(by_element) == 2 and all(
        len(one["text"]["without"]) == 4 for one in by_element.values()
    )
    assert (bench.out / "elements.png").exists()
    single = replace(bench, recipe=changed(bench.recipe, both_sets(size=1)))
    with pytest.raises(OptionError, match="sets of two or more"):
        reproduce("elements", single)


def test_cost_has_the_papers_ratios_beside_ours(bench):
    assert reproduce("cost", bench) == 0
    text, numbers = pages(bench, "cost")
    assert "| ours (sets) | 16 | 16 |" in text and "| SCAN | 1,280 |" in text
    measured = numbers["measured"]
    assert measured["ours (sets)"]["pair_flops"] == 16 * measured["VSE-infinity"]["pair_flops"]
    assert measured["SCAN"]["pair_flops"] > measured["ours (sets)"]["pair_flops"]
    assert (bench.out / "cost.png").exists()
