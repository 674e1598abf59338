"""Fitting a calibration to labelled queries with known probabilities."""

from dataclasses import replace

import numpy as np
import pytest

from diverset.evaluation.calibration import SIZES
from diverset.evaluation.calibration_fit import fit_calibration
from diverset.evaluation.calibration_report import (
    CalibrationReport,
    image_probabilities,
    reliability,
    weak_share,
)
from diverset.evaluation.caption_words import CaptionWords
from diverset.evaluation.labelled_collection import Collection, parts, sample, sample_wrong
from diverset.evaluation.labelled_queries import (
    ABSENT,
    CAPTION,
    LISTED,
    NOUN,
    PHRASE,
    LabelledQuery,
)

VOCABULARY = CaptionWords(1000, {"dog": 90, "big": 80, "owl": 2}, frozenset({"dog", "owl"}))
TEXTS = {
    CAPTION: "a big dog in the big town",
    PHRASE: "big dog",
    NOUN: "dog",
    ABSENT: "owl",
    LISTED: "sextant",
}


def make_collection(seed, images=400, queries=60, dataset=""):
    """Similarities of which each says exactly how probable its image is: logit = 12 s - 9."""
    rng = np.random.default_rng(seed)
    labelled, scores = [], []
    for kind, text in TEXTS.items():
        for _ in range(queries):
            similarity = np.clip(rng.normal(0.3, 0.2, images), -1, 1)
            relevant = rng.random(images) < 1 / (1 + np.exp(9 - 12 * similarity))
            relevant[similarity.argmax()] = (
                True  # every query but an absent thing has a relevant image
            )
            absent = kind in (ABSENT, LISTED)
            labelled.append(LabelledQuery(kind, text, relevant & (not absent)))
            scores.append(similarity - (0.3 if absent else 0))
    return Collection(labelled, np.stack(scores), dataset)


@pytest.fixture(scope="module")
def fitted():
    collections = [make_collection(seed) for seed in range(3)]
    return fit_calibration(collections, VOCABULARY, np.random.default_rng(0))


def test_probabilities_of_other_images_are_reliable_also_under_narrow_filters(fitted):
    rng, other = np.random.default_rng(1), make_collection(9, queries=200)
    for best in (10, None):
        for decile in reliability(*image_probabilities(fitted, other, best), rng):
            assert abs(decile.said - decile.observed) < 0.05 + decile.margin


def test_hits_of_narrow_filters_are_a_sample_of_all_pairs(fitted):
    rng, other = np.random.default_rng(1), make_collection(9)
    probabilities, relevant = image_probabilities(fitted, other, best=None)
    query = other.queries[0]
    filtered = rng.permutation(len(other))[:3]
    rated = fitted.probabilities(other.scores[0][filtered], query.text)
    order = np.argsort(-other.scores[0])
    ranks = [int(np.flatnonzero(order == image)[0]) for image in filtered]
    assert probabilities[0][ranks] == pytest.approx(rated)
    assert (relevant[0][ranks] == query.relevant[filtered]).all()


def test_intervals_of_deciles_contain_hits_of_the_same_query_together():
    rng = np.random.default_rng(0)
    relevant = np.repeat(rng.random((400, 1)) < 0.55, 10, axis=1)  # all hits of a query, or none
    [decile] = reliability(np.full(relevant.shape, 0.55), relevant, rng)
    assert decile.hits == 4000
    assert decile.margin == pytest.approx(1.96 * np.sqrt(0.25 / 400), rel=0.2)


def test_intervals_contain_every_kind_of_cluster():
    """If relevance depends on the image alone, many texts do not make the interval narrower."""
    rng = np.random.default_rng(0)
    relevant = np.repeat(rng.random((1, 200)) < 0.55, 50, axis=0)
    texts, images = np.indices(relevant.shape)
    said = np.full(relevant.shape, 0.55)
    [of_texts] = reliability(said, relevant, rng, texts)
    [of_both] = reliability(said, relevant, rng, texts, images)
    assert of_texts.margin == pytest.approx(0, abs=1e-9)
    assert of_both.margin == pytest.approx(1.96 * np.sqrt(0.25 / 200), rel=0.2)


def test_every_dataset_has_the_same_weight():
    """Many collections of which less is relevant do not outvote one of another dataset."""
    many = [make_collection(seed, dataset="many") for seed in range(4)]
    for collection in many:
        for query in collection.queries:
            query.relevant[::2] = False
    one = make_collection(9, dataset="one")
    fits = [
        fit_calibration([*many[:count], one], VOCABULARY, np.random.default_rng(0))
        for count in (1, 4)
    ]
    few, more = (fitted.probabilities([0.75], "big dog")[0] for fitted in fits)
    alone = fit_calibration(many, VOCABULARY, np.random.default_rng(0))
    assert more == pytest.approx(few, abs=0.04)
    assert more > alone.probabilities([0.75], "big dog")[0] + 0.05


def test_confidence_is_weak_for_few_queries_with_a_relevant_image_and_many_without(fitted):
    rng, other = np.random.default_rng(1), make_collection(9, queries=300)
    for kind in (CAPTION, PHRASE, NOUN):
        for size in (*SIZES, 50):
            assert weak_share(fitted, other, [kind], size, rng) <= 0.05
    assert weak_share(fitted, other, [ABSENT], 400, rng) > 0.8
    assert weak_share(fitted, other, [LISTED], 400, rng) > 0.8


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
    wrong = sample_wrong(LabelledQuery(NOUN, "dog", relevant), 50, rng)
    assert len(wrong) == 49 and 7 not in wrong


def test_images_for_fitting_and_testing_are_disjoint():
    fitted, tested = parts(2600, np.random.default_rng(0))
    assert [len(rows) for rows in fitted] == [694, 693, 693] and len(tested) == 520
    assert sorted(np.concatenate([*fitted, tested])) == list(range(2600))


def test_the_report_has_a_curve_and_deciles(fitted):
    text = str(CalibrationReport.of(fitted, make_collection(9), np.random.default_rng(0)))
    assert "best hit wrong" in text and "narrow filters: " in text and "listed thing: " in text
