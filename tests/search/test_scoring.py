"""Rules over cosines: weighted smooth-Chamfer against the formula, coverage, parts."""

import numpy as np
import pytest

from diverset.errors import OptionError
from diverset.index.explain import smooth_chamfer_of
from diverset.search.calibration import Calibration, load_calibration, reach
from diverset.search.groups import group
from diverset.search.query import ALSO, WITHOUT, Clause, Combined
from diverset.search.scoring import coverage, part, weighted

ALPHA = 16.0
FITTED = Calibration(-5.27, 7.91, 11.83, -2.23)  # on Flickr8k val


@pytest.fixture
def cosines():
    return np.random.default_rng(0).uniform(-0.2, 0.9, (7, 4, 3))


def test_equal_weights_are_smooth_chamfer(cosines):
    np.testing.assert_allclose(weighted(cosines, ALPHA), smooth_chamfer_of(cosines, ALPHA))
    given = np.array([2.0, 2.0, 2.0, 2.0])
    np.testing.assert_allclose(weighted(cosines, ALPHA, given), smooth_chamfer_of(cosines, ALPHA))


def test_an_element_of_no_weight_is_not_there(cosines):
    found = weighted(cosines, ALPHA, np.array([1.0, 0.0, 1.0, 0.0]))
    # What is left counts double in the sum over elements, as shares sum to one.
    left = smooth_chamfer_of(cosines[:, [0, 2]], ALPHA) + np.log(2) / (2 * ALPHA)
    np.testing.assert_allclose(found, left)
    for wrong in ([1.0], [0.0] * 4, [1.0, -1.0, 1.0, 1.0], [float("nan")] * 4):
        with pytest.raises(OptionError, match="not all of them 0"):
            weighted(cosines, ALPHA, np.array(wrong))


def test_coverage_and_parts_are_extremes(cosines):
    for place, one in enumerate(cosines):
        met = [max(row) for row in one]
        assert coverage(cosines)[place] == min(met)
        assert part(cosines)[place] == pytest.approx(sum(met) / 4)


def sets(*places):
    return np.eye(6, dtype=np.float32)[list(places)]


def test_all_of_several_things_and_without_another():
    items = np.stack([sets(0, 1), sets(0, 2), sets(1, 2), sets(3, 4)])
    dog, cat = Clause(sets(0)), Clause(sets(1), role=ALSO)
    sample = np.concatenate([items, items[3:], items[3:]])

    def best(*clauses):
        rule = Combined(clauses, sample, ALPHA)
        return rule(np.einsum("qd,nsd->nqs", rule.elements, items)).argmax()

    assert best(dog, cat) == 0
    assert best(dog, Clause(sets(1), role=WITHOUT)) == 1
    assert best(Clause(sets(1)), Clause(sets(0), role=WITHOUT)) == 2
    half = Clause(sets(1), share=0.5), Clause(sets(2), share=0.5)
    assert best(*half) == 2


def test_probabilities_rise_with_scores_and_with_company(tmp_path):
    alone = FITTED.probabilities([0.6, 0.2, 0.2, 0.2, 0.2], 100)
    among = FITTED.probabilities([0.6, 0.58, 0.57, 0.57, 0.56], 100)
    assert among[0] > alone[0] > alone[1]
    assert len(FITTED.probabilities([], 0)) == 0
    assert load_calibration(tmp_path, "mine") is None
    fitted = Calibration(1, 2, 3, fingerprint="mine")
    fitted.save(tmp_path)
    assert load_calibration(tmp_path, "mine") == fitted
    assert load_calibration(tmp_path, "another") is None


def test_the_same_answer_is_worth_less_among_more():
    few, many = (FITTED.probabilities([0.6, 0.4, 0.3, 0.3, 0.3], items) for items in (60, 1000))
    assert few[0] > 0.4 > many[0]
    chance = np.random.default_rng(0)
    best = np.sort(chance.normal(size=(4000, 60)), axis=1)[:, -5:]
    assert abs(reach(60) - best.mean()) < 0.02
    assert FITTED.probabilities([0.6], 1)[0] > 0.9


def test_groups():
    elements = np.stack([sets(0)[0], sets(1)[0], sets(0)[0], sets(2)[0], sets(3)[0], sets(4)[0]])
    assert group(elements, most=2)[0][0] == 0
    found = group(elements, most=10)
    assert found[0] == [0, 2] and sorted(map(len, found)) == [1, 1, 1, 1, 2]
    assert group(np.zeros((0, 3))) == []
