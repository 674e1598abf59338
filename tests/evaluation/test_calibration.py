"""From similarities to probabilities and confidence."""

import logging
import math
from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest

from diverset.errors import DataError
from diverset.evaluation.calibration import CALIBRATION_FILE, Calibration, load_calibration

FITTED = Calibration(
    -9.0, 13.0, slopes=[1.0, 0.5], text=[0.7, 0.5, 0.7, -0.2, 0.1, 0.1],
    knee=-1.0, bends=[0.5, 0.2],
    evidence=[[1, 0.1, 0, 0], [1, 0.02, 0.03, 0.05], [1, 0, 0, 0]],
    thresholds=[[0.2, 0.3, 0.4, 0.5], [0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4]],
    captions=100_000, words={"a": 90_000, "dog": 5_000, "vulture": 3},
)  # fmt: skip


def test_probabilities_rise_with_the_similarity():
    probabilities = FITTED.probabilities([0.2, 0.4, 0.6], "a dog")
    assert (np.diff(probabilities) > 0).all()
    assert len(FITTED.probabilities([], "a dog")) == 0


def test_a_rare_word_makes_the_same_similarity_less_probable():
    common, rare, unknown = (
        FITTED.probabilities([0.6], text)[0] for text in ("dog", "vulture", "sextant")
    )
    assert common > 3 * rare > 3 * unknown
    assert FITTED.probabilities([0.6], "dogs")[0] == common


def test_an_article_changes_nothing():
    assert FITTED.probabilities([0.6], "a dog")[0] == FITTED.probabilities([0.6], "dog")[0]
    assert FITTED.confidence([0.4], "the vulture", 12) == FITTED.confidence([0.4], "vulture", 12)


def test_log_odds_rise_faster_above_the_knee():
    slopes = np.diff(FITTED.logits(np.linspace(0.2, 0.8, 60), "dog"))
    assert slopes.max() / slopes.min() == pytest.approx(1.5) and (np.diff(slopes) > -1e-9).all()
    longer = np.diff(FITTED.logits(np.linspace(0.2, 0.8, 60), "dog runs"))
    assert longer.max() / longer.min() == pytest.approx(1.2)


def test_the_probability_of_an_image_does_not_depend_on_other_images():
    alone, among = FITTED.probabilities([0.5], "dog"), FITTED.probabilities([0.7, 0.5, 0.1], "dog")
    assert alone[0] == among[1]


def test_the_threshold_of_the_note_rises_with_the_collection_and_then_stays():
    thresholds = [FITTED.threshold("dog", items) for items in (0, 1, 12, 35, 100, 1000, 50_000)]
    assert thresholds[:3] == [0.2, 0.2, 0.3] and 0.3 < thresholds[3] < 0.4
    assert thresholds[4:] == [0.4, 0.5, 0.5]
    assert FITTED.threshold("big dog", 100) == 0.3


def test_a_rare_word_must_reach_a_larger_similarity():
    common, rare, unknown = (FITTED.presence(0.6, text) for text in ("dog", "vulture", "sextant"))
    assert common > rare > unknown
    assert FITTED.presence(0.7, "dog") == pytest.approx(common + 0.1)
    rates = [np.log(1000 * (1 + count) / 100_000) for count in (3, 5_000)]
    expected = 0.6 + 0.02 * rates[0] + 0.03 * rates[1] + 0.05 * sum(rates) / 2
    assert FITTED.presence(0.6, "vulture dogs") == pytest.approx(expected)


def test_confidence_has_three_levels():
    similarities = np.linspace(0.2, 0.95, 200)
    levels = [FITTED.confidence([best, 0.1], "vulture", 12) for best in similarities]
    assert [level for level, _ in groupby(levels)] == ["weak", "possible", "good"]
    good = similarities[levels.index("good")]
    assert FITTED.probabilities([good], "vulture")[0] == pytest.approx(0.5, abs=0.02)
    possible = similarities[levels.index("possible")]
    assert FITTED.presence(possible, "vulture") == pytest.approx(0.3, abs=0.005)


def test_confidence_is_never_weak_with_a_good_hit():
    strict = replace(FITTED, thresholds=[[9.0] * 4] * 3)
    assert strict.probabilities([0.95], "dog")[0] > 0.5
    assert strict.confidence([0.95], "dog", 1000) == "good"
    assert strict.confidence([0.3], "dog", 1000) == "weak"


def test_a_stored_calibration_is_used_for_its_model_only(tmp_path, caplog):
    assert load_calibration(tmp_path, "mine") is None
    fitted = replace(FITTED, fingerprint="mine")
    fitted.save(tmp_path)
    assert load_calibration(tmp_path, "mine") == fitted
    with caplog.at_level(logging.WARNING):
        assert load_calibration(tmp_path, "another") is None
    assert "was fitted for the model mine, not another" in caplog.text


def test_a_calibration_of_an_older_version_is_rejected(tmp_path):
    (tmp_path / CALIBRATION_FILE).write_text('{"bias": 1, "score": 2, "top_mean": 3}')
    with pytest.raises(DataError, match=r"not a calibration of this version .*'score'"):
        load_calibration(tmp_path, "mine")
    (tmp_path / CALIBRATION_FILE).write_text('{"bias": 1, "similarity": 2, "text": [1, 2, 3, 4]}')
    with pytest.raises(DataError, match=r"not a calibration .*text has shape \(4,\), not \(6,\)"):
        load_calibration(tmp_path, "mine")


def test_texts_without_letters_have_a_probability():
    assert math.isfinite(FITTED.logits([0.3], "2020 !")[0])
