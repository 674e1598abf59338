from dataclasses import replace

import pytest

from diverset.reproduce.run_studies import run_studies
from diverset.reproduce.studies.comparison import compared_methods

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric"),
]


def test_every_method_has_an_ensemble_and_a_bootstrap_per_seed(experiment, read_page):
    assert run_studies("comparison", experiment) == 0
    _, numbers = read_page(experiment, "comparison")
    assert len(numbers["ensembles"]) == 11
    assert [seed["run_seed"] for seed in numbers["paired_bootstrap"]["SGRAF"]] == [0, 1]
    measured = {variant["name"]: variant["mean"] for variant in numbers["variants"]}
    assert len(measured) == 14 and all(row["pair_ms"] > 0 for row in measured.values())
    halves = measured["SGR"], measured["SAF"]
    for cost in ("minutes", "pair_kflops"):
        assert measured["SGRAF"][cost] == pytest.approx(sum(half[cost] for half in halves))
    assert [seed["run_seed"] for seed in numbers["paired_bootstrap"]["SCAN"]] == [0, 1]
    single = replace(experiment, ensembles=False)
    assert run_studies("comparison", single) == 0
    text, numbers = read_page(single, "comparison")
    assert numbers["ensembles"] == {} and "--no-ensembles" in text
    assert measured.keys() == {variant["name"] for variant in numbers["variants"]}


def test_skipping_a_mean_skips_its_parts(experiment):
    kept = compared_methods(replace(experiment, skip=("SGRAF", "SCAN")))
    assert {"SGR", "SAF", "SCAN"}.isdisjoint(variant.name for variant in kept)
