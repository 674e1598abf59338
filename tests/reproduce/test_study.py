"""Studies with one table of trained variants, from end to end on tiny scenes."""

import json

import pytest

from diverset.reproduce.run_studies import run_studies
from diverset.reproduce.studies import STUDIES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric"),
]
NAMES = ["similarity", "architecture", "variance", "slot-attention", "comparison"]


@pytest.mark.parametrize("name", NAMES)
def test_a_study_writes_table_numbers_and_plot(name, experiment, read_page):
    assert run_studies(name, experiment) == 0
    text, numbers = read_page(experiment, name)
    assert all(len(variant["values"]["rsum"]) == 2 for variant in numbers["variants"])
    assert numbers["claims"]
    for claim in numbers["claims"]:
        assert claim["claim"] in text and claim["answer"] in text
    assert f"]({name}.png)" in text
    for kind in ("png", "svg"):
        assert (experiment.out / f"{name}.{kind}").stat().st_size > 5000
    assert str(experiment.runs) not in text + json.dumps(numbers)


@pytest.mark.parametrize("name", NAMES)
def test_a_second_call_trains_nothing(name, experiment, capsys):
    run_studies(name, experiment)
    capsys.readouterr()
    assert run_studies(name, experiment) == 0
    text = capsys.readouterr().out
    assert "started" not in text
    assert f"{len(STUDIES[name].runs(experiment))} already done" in text
