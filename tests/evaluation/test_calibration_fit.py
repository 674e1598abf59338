"""Fitting a calibration to labelled queries with known probabilities."""

from dataclasses import replace

import numpy as np
import pytest

from diverset.evaluation.calibration import SIZES
from diverset.evaluation.calibration_fit import Collection, fit_calibration, parts, sample
from diverset.evaluation.calibration_report import (
    CalibrationReport,
    reliability,
    sampled_probabilities,
    weak_share,
)
from diverset.evaluation.caption_words import CaptionWords
from diverset.evaluation.labelled_queries import ABSENT, CAPTION, NOUN, PHRASE, LabelledQuery

VOCABULARY = CaptionWords(1000, {"dog": 90, "big": 80, "owl": 2}, frozenset({"dog", "owl"}))
TEXTS = {CAPTION: "a big dog in the big town", PHRASE: "big dog", NOUN: "dog", ABSENT: "owl"}


def make_collection(seed, images=400, queries=60):
    """Similarities of which each says exactly how probable its image is: logit = 12 s - 9."""
    rng = np.random.default_rng(seed)
    labelled, scores = [], []
    for kind, text in TEXTS.items():
        for _ in range(queries):
            similarity = np.clip(rng.normal(0.3, 0.2, images), -1, 1)
            relevant = rng.random(images) < 1 / (1 + np.exp(9 - 12 * similarity))
            relevant[similarity.argmax()] = (
                True  # every query but an absent noun has a relevant image
            )
            labelled.append(LabelledQuery(kind, text, relevant & (kind != ABSENT)))
            scores.append(similarity - (0.3 if kind == ABSENT else 0))
    return Collection(labelled, np.stack(scores))


@pytest.fixture(scope="module")
def fitted():
    collections = [make_collection(seed) for seed in range(3)]
    return fit_calibration(collections, VOCABULARY, np.random.default_rng(0))


def test_probabilities_of_other_images_are_reliable_also_under_narrow_filters(fitted):
    rng, other = np.random.default_rng(1), make_collection(9, queries=200)
    for size, repeats in ((400, 1), (10, 10), (3, 30)):
        for said, observed, count in reliability(
            *sampled_probabilities(fitted, other, size, rng, repeats=repeats)
        ):
            assert abs(said - observed) < 0.05 + 2 * np.sqrt(0.25 / count)


def test_confidence_is_weak_for_few_queries_with_a_relevant_image_and_many_without(fitted):
    rng, other = np.random.default_rng(1), make_collection(9, queries=300)
    for kind in (CAPTION, PHRASE, NOUN):
        for size in (*SIZES, 50):
            assert weak_share(fitted, other, [kind], size, rng) <= 0.05
    assert weak_share(fitted, other, [ABSENT], 400, rng) > 0.8


def test_similarities_without_information_give_equal_probabilities(caplog):
    reversed_ = make_collection(0)
    reversed_ = replace(reversed_, scores=-reversed_.scores)
    fitted = fit_calibration([reversed_], VOCABULARY, np.random.default_rng(0))
    low, high = fitted.probabilities([0.1, 0.9], "dog")
    assert low == pytest.approx(high) and "equally probable" in caplog.text


def test_samples_contain_a_relevant_image():
    rng, relevant = np.random.default_rng(0), np.arange(50) == 7
    for size in (1, 3, 50):
        assert 7 in sample(LabelledQuery(NOUN, "dog", relevant), size, rng)
        assert len(sample(LabelledQuery(NOUN, "dog", relevant), size, rng)) == size
    assert 9 in sample(LabelledQuery(CAPTION, "a dog", relevant, own=9), 1, rng)


def test_images_for_fitting_and_testing_are_disjoint():
    fitted, tested = parts(2600, np.random.default_rng(0))
    assert [len(rows) for rows in fitted] == [694, 693, 693] and len(tested) == 520
    assert sorted(np.concatenate([*fitted, tested])) == list(range(2600))


def test_the_report_has_a_curve_and_deciles(fitted):
    text = str(CalibrationReport.of(fitted, make_collection(9), np.random.default_rng(0)))
    assert "best hit wrong" in text and "400 images: " in text and "absent noun: " in text
