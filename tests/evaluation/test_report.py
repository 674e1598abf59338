import json
import math

import numpy as np
import pytest
from support import load_fixture, random_sets

from diverset import evaluation
from diverset.evaluation import (
    Member,
    Protocol,
    Recalls,
    Report,
    evaluate_members,
    evaluate_sets,
    paired_bootstrap,
)

FIVE_EACH = np.repeat(np.arange(100), 5)
numbers = load_fixture("evaluation")


def test_report_contains_all_measurements():
    report = evaluate_sets(numbers["img"], numbers["txt"], FIVE_EACH)
    assert report.rsum == pytest.approx(306.2)
    stored = json.loads(report.to_json())
    assert stored == report.to_dict() | {"health": stored["health"]}
    assert (stored["protocol"], stored["n_images"], stored["n_captions"]) == ("full", 100, 500)
    assert stored["recalls_are"] == "percent" and stored["rsum"] == report.rsum
    assert stored["image_to_text"]["r1"] == 34.0 and stored["text_to_image"]["r10"] == 58.0
    assert stored["health"]["images"]["slot_use"] == list(report.health.images.slot_use)
    assert "ranks" not in stored


def test_table_is_valid_markdown():
    report = evaluate_sets(
        numbers["img"],
        numbers["txt"],
        FIVE_EACH,
        protocol=Protocol("folds of 20", fold_size=20),
        extras={"note": "tiny", "ECCV Caption, percent": {"R-P": {"i2t": 6.139}}},
    )
    lines = str(report).splitlines()
    assert lines[0] == (
        "Protocol: folds of 20 (mean of 5 folds); 100 images, 500 captions; recalls in percent; "
        "RSUM 463.6"
    )
    assert "| image to text |  62.0 |  95.0 |  99.0 |         1.0 |       2.2 |" in lines
    assert lines[-3:] == ["- note: tiny", "- ECCV Caption, percent", "  - R-P: i2t 6.14"]
    tables = [line for line in lines if line.startswith("|")]
    assert len({line.count("|") for line in tables}) == 1 and len(tables) == 8


def test_report_of_an_ensemble_has_no_health():
    member = Member(numbers["img"], numbers["txt"])
    report = evaluate_members([member, member], FIVE_EACH, extras={"k": 4})
    assert report.rsum == pytest.approx(306.2) and report.health is None
    assert report.extras == {"ensemble of": 2, "k": 4}
    assert "health" in report.to_dict() and "variance" not in report.table()


def test_reports_of_two_runs_can_be_compared():
    soft = evaluate_sets(numbers["img"], numbers["txt"], FIVE_EACH, health=False)
    hard = evaluate_sets(numbers["img"], numbers["txt"], FIVE_EACH, "mil", health=False)
    comparison = paired_bootstrap(soft.ranks, hard.ranks, resamples=200)
    assert comparison.difference == pytest.approx(hard.rsum - soft.rsum)
    assert comparison.high < 0 and comparison.p_value < 0.05


def test_table_shows_a_dash_for_sets_of_one_element():
    sets = random_sets(3, 1, 4)
    assert "|                 - |" in evaluate_sets(sets, sets, range(3)).table()


def test_nan_cannot_be_written_as_json():
    recalls = Recalls(0, 0, 0, 1, 1)
    with pytest.raises(ValueError, match="JSON"):
        Report("full", 1, 1, recalls, recalls, extras={"x": math.nan}).to_json()


def test_public_names_exist():
    assert all(hasattr(evaluation, name) for name in evaluation.__all__)
