"""Scores of cosines: weighted smooth-Chamfer against the formula, coverage, clauses, groups."""

import numpy as np
import pytest

from diverset.errors import OptionError
from diverset.evaluation.calibration import Calibration
from diverset.index.explain import smooth_chamfer_from_cosines
from diverset.photos.search.groups import group
from diverset.photos.search.query import EXCLUDED, IMAGE, JOINT, STRICT, Clause, CombinedScore
from diverset.photos.search.scoring import coverage, weighted_smooth_chamfer

ALPHA = 16.0


@pytest.fixture
def cosines():
    return np.random.default_rng(0).uniform(-0.2, 0.9, (7, 4, 3))


def test_equal_weights_are_smooth_chamfer(cosines):
    expected = smooth_chamfer_from_cosines(cosines, ALPHA)
    for weights in (None, np.array([2.0, 2.0, 2.0, 2.0])):
        actual = weighted_smooth_chamfer(cosines, ALPHA, weights)
        np.testing.assert_allclose(actual, expected)


def test_an_element_of_weight_zero_is_ignored(cosines):
    actual = weighted_smooth_chamfer(cosines, ALPHA, np.array([1.0, 0.0, 1.0, 0.0]))
    # The other elements count double, because weights are normalised to sum to one.
    expected = smooth_chamfer_from_cosines(cosines[:, [0, 2]], ALPHA) + np.log(2) / (2 * ALPHA)
    np.testing.assert_allclose(actual, expected)
    for wrong in ([1.0], [0.0] * 4, [1.0, -1.0, 1.0, 1.0], [float("nan")] * 4):
        with pytest.raises(OptionError, match="not all 0"):
            weighted_smooth_chamfer(cosines, ALPHA, np.array(wrong))


def test_coverage_is_the_smallest_of_the_best_cosines(cosines):
    for item, pairs in enumerate(cosines):
        best = [max(row) for row in pairs]
        assert coverage(cosines)[item] == min(best)


def unit_vectors(*axes):
    return np.eye(6, dtype=np.float32)[list(axes)]


def test_required_texts_must_match_and_excluded_texts_must_not():
    items = np.stack(
        [unit_vectors(0, 1), unit_vectors(0, 2), unit_vectors(1, 2), unit_vectors(3, 4)]
    )
    dog, cat = Clause(unit_vectors(0)), Clause(unit_vectors(1))
    both = Clause(unit_vectors(0, 1), JOINT)
    sample = np.concatenate([items, items[3:], items[3:]])

    def best(*clauses):
        rule = CombinedScore(clauses, sample, ALPHA)
        return rule(np.einsum("qd,nsd->nqs", rule.elements, items)).argmax()

    assert best(dog, cat) == best(dog, cat, both) == 0
    assert best(dog, Clause(unit_vectors(1), role=EXCLUDED)) == 1
    assert best(Clause(unit_vectors(1)), Clause(unit_vectors(0), role=EXCLUDED)) == 2
    assert (
        best(Clause(unit_vectors(1), weight=0.5), Clause(unit_vectors(2), IMAGE, weight=0.5)) == 2
    )


def test_a_calibrated_model_ranks_by_the_probability_that_nothing_excluded_is_shown():
    rng = np.random.default_rng(2)
    sets = rng.normal(size=(60, 2, 6)) + 0.5
    sets /= np.linalg.norm(sets, axis=-1, keepdims=True)
    counts = {"dog": 50, "ball": 20}
    fitted = Calibration(-4.0, 9.0, text=[0.5, 0, 0.3, 0, 0, 0], captions=1000, words=counts)
    clauses = [Clause(sets[0], text="dog"), Clause(sets[1], EXCLUDED, text="ball")]
    rule = CombinedScore(clauses, sets, ALPHA, fitted)
    cosines = np.einsum("qd,nsd->nqs", rule.elements, sets)
    wanted, unwanted = rule.per_clause(cosines)
    odds = np.exp(fitted.logits(unwanted, "ball") + STRICT)
    expected = np.log(fitted.probabilities(wanted, "dog")) - np.log(1 + odds)
    np.testing.assert_allclose(rule(cosines), expected, atol=1e-6)


def test_an_excluded_text_that_no_image_shows_does_not_change_the_ranking_of_several_texts():
    rng = np.random.default_rng(3)
    sets = rng.normal(size=(60, 2, 6))
    sets[:, :, 5] = 0  # the axis of the excluded text
    sets /= np.linalg.norm(sets, axis=-1, keepdims=True)
    texts = [Clause(sets[0], text="dog"), Clause(sets[1], text="snow")]
    texts.append(Clause(sets[2], JOINT, text="dog snow"))
    excluded = Clause(unit_vectors(5, 5), EXCLUDED, text="ball")
    orders = []
    for clauses in (texts, [*texts, excluded]):
        rule = CombinedScore(clauses, sets, ALPHA, Calibration(-4.0, 9.0))
        orders.append(np.argsort(-rule(np.einsum("qd,nsd->nqs", rule.elements, sets))).tolist())
    assert orders[0] == orders[1]


def test_contributions_are_the_gradient_of_the_combined_score(cosines):
    rng = np.random.default_rng(1)
    sample = rng.normal(size=(50, 3, 6))
    sample /= np.linalg.norm(sample, axis=-1, keepdims=True)
    texts, joint = sample[0, :2], sample[1, :2]
    weights = np.array([1.0, 3.0])
    clauses = [
        Clause(sample[2, :2], IMAGE, weight=0.4),
        Clause(texts, element_weights=weights, weight=0.6),
        Clause(sample[3, :2], coverage=True, weight=0.6),
        Clause(joint, JOINT, weight=0.6),
    ]
    rule = CombinedScore(clauses, sample, ALPHA)
    pairs = rng.uniform(-0.2, 0.9, (5, 8, 3))
    actual = rule.contributions(pairs)
    gradient = np.zeros_like(pairs)
    for query in range(8):
        for element in range(3):
            step = np.zeros((8, 3))
            step[query, element] = 1e-6
            change = rule(pairs + step) - rule(pairs - step)
            gradient[:, query, element] = change / 2e-6
    expected = gradient / gradient.sum(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_hits_with_the_same_matched_element_are_in_one_group():
    elements = np.stack(
        [
            unit_vectors(0)[0],
            unit_vectors(1)[0],
            unit_vectors(0)[0],
            unit_vectors(2)[0],
            unit_vectors(3)[0],
            unit_vectors(4)[0],
        ]
    )
    assert group(elements, max_groups=2)[0][0] == 0
    actual = group(elements, max_groups=10)
    assert actual[0] == [0, 2] and sorted(map(len, actual)) == [1, 1, 1, 1, 2]
    assert group(np.zeros((0, 3))) == []
