import math
from dataclasses import replace

import numpy as np
import pytest

from diverset.reproduce.claims import (
    DOES_NOT_HOLD,
    HOLDS,
    NOT_DECIDED,
    Claim,
    compare,
    decide,
    detectable,
    seeds_needed,
)
from diverset.reproduce.results import Result, pooled_spread


def results(**values):
    return [Result(name, {"rsum": numbers} if numbers else {}) for name, numbers in values.items()]


@pytest.mark.parametrize(
    ("ours", "theirs", "answer"),
    [
        ([10, 12], [1, 3], HOLDS),
        ([1, 3], [10, 12], DOES_NOT_HOLD),
        ([10, 12], [9, 11], NOT_DECIDED),  # the difference of 1 is within the spread of 2
        ([10], [1], NOT_DECIDED),  # one seed has no spread
        ([10, 12], [1], NOT_DECIDED),
        ([10, 10], [9.9, 9.9], HOLDS),
    ],
)
def test_a_difference_has_to_exceed_the_spread(ours, theirs, answer):
    verdict = decide(Claim("a beats b", ("a",), ("b",)), results(a=ours, b=theirs))
    assert verdict.answer == answer
    assert "a " in verdict.numbers and "b " in verdict.numbers


def test_the_spread_is_at_least_the_pooled_one():
    # Two seeds that agree by chance do not make a difference of 1 safe where others differ by 10.
    lucky = results(a=[10, 10], b=[9, 9], c=[0, 10], d=[0, 10])
    assert decide(Claim("", ("a",), ("b",)), lucky).answer == NOT_DECIDED
    pooled = pooled_spread(lucky, "rsum")
    assert pooled == pytest.approx(math.sqrt((0 + 0 + 50 + 50) / 4))
    assert compare(lucky[0], lucky[1], "rsum", pooled).spread == pytest.approx(math.sqrt(2) * 5)
    assert compare(lucky[2], lucky[3], "rsum", pooled).spread == pytest.approx(10)


def test_a_claim_on_several_variants_needs_all_pairs():
    measured = results(a=[10, 10.2], b=[9.9, 10.1], c=[1, 1.2], d=[20, 20.2])
    assert decide(Claim("", ("a", "b"), ("c",)), measured).answer == HOLDS
    assert decide(Claim("", ("a",), ("b", "c")), measured).answer == NOT_DECIDED
    assert decide(Claim("", ("a",), ("c", "d")), measured).answer == DOES_NOT_HOLD


def test_an_undecided_claim_says_how_many_seeds_would_decide_it():
    numbers = decide(Claim("", ("a",), ("b",)), results(a=[10, 12], b=[9, 11])).numbers
    assert numbers.endswith("(spread 2.00; 2 seeds show differences above 3.96, this one needs 32)")
    decided = decide(Claim("", ("a",), ("b",)), results(a=[10, 12], b=[1, 3])).numbers
    assert decided.endswith("(spread 2.00)")
    equal = decide(Claim("", ("a",), ("b",)), results(a=[10, 12], b=[10, 12])).numbers
    assert equal.endswith("2 seeds show differences above 3.96)")


def test_the_number_of_seeds_has_the_promised_power():
    """Simulated: a two-sided test at 5 % finds such a difference in four of five experiments."""
    difference, deviation = 2.0, 2.5
    seeds = seeds_needed(difference, math.sqrt(2) * deviation)
    assert detectable(math.sqrt(2) * deviation, seeds) <= difference
    rng = np.random.default_rng(0)
    means = rng.normal(0, deviation, (2, 20_000, seeds)).mean(axis=2)
    found = np.abs(means[0] - means[1] + difference) > 1.96 * deviation * math.sqrt(2 / seeds)
    assert found.mean() == pytest.approx(0.8, abs=0.02)


def test_variants_without_numbers_decide_nothing():
    measured = results(a=[1, 2], b=[])
    verdict = decide(Claim("", ("a",), ("b", "z")), measured)
    assert verdict.answer == NOT_DECIDED and "b, z" in verdict.numbers


def test_variants_of_the_same_runs_are_compared_seed_by_seed():
    measured = results(a=[10, 20, 30], b=[9, 18.9, 29.1], c=[5, 30, 29])
    claim = Claim("", ("a",), ("b",))
    assert decide(claim, measured).answer == NOT_DECIDED  # seeds differ by 10
    assert decide(replace(claim, paired=True), measured).answer == HOLDS
    assert decide(Claim("", ("a",), ("b", "c"), paired=True), measured).answer == NOT_DECIDED


def test_a_verdict_shows_the_closest_pairs():
    measured = results(a=[10, 10], **{f"b{n}": [n, n] for n in range(6)})
    numbers = decide(Claim("", ("a",), tuple(f"b{n}" for n in range(6))), measured).numbers
    assert numbers.startswith("a 10.00 - b5 5.00 = +5.00") and numbers.endswith("; and 3 more")
