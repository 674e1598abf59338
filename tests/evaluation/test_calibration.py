"""From similarities to probabilities and confidence."""

import logging
import math

import numpy as np
import pytest

from diverset.errors import DataError
from diverset.evaluation.calibration import CALIBRATION_FILE, Calibration, load_calibration

FITTED = Calibration(
    -9.0, 13.0, text=[0.7, 0.5, 0.7, -0.2], knee=-1.0, bend=0.5,
    thresholds=[[-5, -4, -3, -2], [-6, -5, -4, -3], [-6, -5, -4, -3]],
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


def test_log_odds_rise_faster_above_the_knee():
    slopes = np.diff(FITTED.logits(np.linspace(0.2, 0.8, 60), "dog"))
    assert slopes.max() / slopes.min() == pytest.approx(1.5) and (np.diff(slopes) > -1e-9).all()


def test_the_probability_of_an_image_does_not_depend_on_other_images():
    alone, among = FITTED.probabilities([0.5], "dog"), FITTED.probabilities([0.7, 0.5, 0.1], "dog")
    assert alone[0] == among[1]


def test_the_threshold_of_the_note_rises_with_the_collection_and_then_stays():
    thresholds = [FITTED.threshold("dog", items) for items in (0, 1, 12, 35, 100, 1000, 50_000)]
    assert thresholds[:3] == [-5, -5, -4] and -4 < thresholds[3] < -3
    assert thresholds[4:] == [-3, -2, -2]
    assert FITTED.threshold("a dog", 100) == -4


def test_confidence_has_three_levels():
    logit = FITTED.logits([0.0], "dog")[0]

    def confidence(best):
        linear = best if best < -1 else (best - 0.5) / 1.5  # below and above the knee
        return FITTED.confidence([(linear - logit) / FITTED.similarity], "dog", 1000)

    assert [confidence(best) for best in (0.1, -0.1, -1.9, -2.1)] == [
        "good", "possible", "possible", "weak",
    ]  # fmt: skip


def test_a_stored_calibration_is_used_for_its_model_only(tmp_path, caplog):
    assert load_calibration(tmp_path, "mine") is None
    fitted = Calibration(1, 2, thresholds=[[-1.0, 0, 1, 2]] * 3, fingerprint="mine")
    fitted.save(tmp_path)
    assert load_calibration(tmp_path, "mine") == fitted
    with caplog.at_level(logging.WARNING):
        assert load_calibration(tmp_path, "another") is None
    assert "was fitted for the model mine, not another" in caplog.text


def test_a_calibration_of_an_older_version_is_rejected(tmp_path):
    (tmp_path / CALIBRATION_FILE).write_text('{"bias": 1, "score": 2, "top_mean": 3}')
    with pytest.raises(DataError, match=r"not a calibration of this version .*'score'"):
        load_calibration(tmp_path, "mine")


def test_texts_without_letters_have_a_probability():
    assert math.isfinite(FITTED.logits([0.3], "2020 !")[0])
