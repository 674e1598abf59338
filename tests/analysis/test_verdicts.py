"""Claims are decided by means and spreads, and by nothing else."""

import math
from dataclasses import replace

import pytest

from diverset.analysis import elements
from diverset.analysis.outcomes import Outcome, pooled_spread
from diverset.analysis.tables import RSUM, outcome_table
from diverset.analysis.verdicts import FAILS, HOLDS, OPEN, Claim, compare, judge


def rows(**values):
    return [Outcome(name, {"rsum": found} if found else {}) for name, found in values.items()]


@pytest.mark.parametrize(
    ("ours", "theirs", "answer"),
    [
        ([10, 12], [1, 3], HOLDS),
        ([1, 3], [10, 12], FAILS),
        ([10, 12], [9, 11], OPEN),  # the difference of 1 is within the spread of 2
        ([10], [1], OPEN),  # one seed has no spread
        ([10, 12], [1], OPEN),
        ([10, 10], [9.9, 9.9], HOLDS),
    ],
)
def test_a_difference_has_to_exceed_the_spread(ours, theirs, answer):
    found = judge(Claim("a beats b", ("a",), ("b",)), rows(a=ours, b=theirs))
    assert found.answer == answer
    assert "a " in found.numbers and "b " in found.numbers


def test_the_spread_is_at_least_the_pooled_one():
    # Two seeds that agree by chance do not make a difference of 1 safe where others differ by 10.
    lucky = rows(a=[10, 10], b=[9, 9], c=[0, 10], d=[0, 10])
    assert judge(Claim("", ("a",), ("b",)), lucky).answer == OPEN
    pooled = pooled_spread(lucky, "rsum")
    assert pooled == pytest.approx(math.sqrt((0 + 0 + 50 + 50) / 4))
    assert compare(lucky[0], lucky[1], "rsum", pooled).spread == pytest.approx(math.sqrt(2) * 5)
    assert compare(lucky[2], lucky[3], "rsum", pooled).spread == pytest.approx(10)


def test_claims_on_several_rows_need_all_of_them():
    found = rows(a=[10, 10.2], b=[9.9, 10.1], c=[1, 1.2], d=[20, 20.2])
    assert judge(Claim("", ("a", "b"), ("c",)), found).answer == HOLDS
    assert judge(Claim("", ("a",), ("b", "c")), found).answer == OPEN
    assert judge(Claim("", ("a",), ("c", "d")), found).answer == FAILS


def test_rows_without_numbers_decide_nothing():
    found = rows(a=[1, 2], b=[])
    verdict = judge(Claim("", ("a",), ("b", "z")), found)
    assert verdict.answer == OPEN and "b, z" in verdict.numbers


def test_a_failed_row_says_so():
    failed = Outcome("GRU", {}, {"rsum": 423.3}, note="seed 0 failed: NaN")
    assert "| GRU | 423.3 | failed | 0 |" in outcome_table([failed], [RSUM])


def test_rows_of_the_same_runs_are_compared_seed_by_seed():
    found = rows(a=[10, 20, 30], b=[9, 18.9, 29.1], c=[5, 30, 29])
    claim = Claim("", ("a",), ("b",))
    assert judge(claim, found).answer == OPEN  # seeds differ by 10
    assert judge(replace(claim, paired=True), found).answer == HOLDS
    assert judge(Claim("", ("a",), ("b", "c"), paired=True), found).answer == OPEN


def test_a_verdict_names_the_closest_pairs():
    found = rows(a=[10, 10], **{f"b{n}": [n, n] for n in range(6)})
    said = judge(Claim("", ("a",), tuple(f"b{n}" for n in range(6))), found).numbers
    assert said.startswith("a 10.00 - b5 5.00 = +5.00") and said.endswith("; and 3 more")


def elements_found(*alone: float) -> dict[str, object]:
    side = {"alone": list(alone), "without": list(alone)}
    return {"all elements": 500.0, "image": side, "text": side}


@pytest.mark.parametrize(
    ("seeds", "answer"),
    [
        ([(491, 486, 485, 310), (490, 487, 484, 320)], "holds"),  # as in the paper
        ([(491, 486, 485, 484), (490, 488, 485, 483)], "does not hold"),  # sorted, nothing else
    ],
)
def test_far_worse_is_more_than_the_others_differ(seeds, answer):
    found = [elements_found(*one) for one in seeds]
    claim = next(one for one in elements.claims(4, 4) if "far worse" in one.text)
    assert judge(claim, elements.gaps_of(found)).answer == answer
