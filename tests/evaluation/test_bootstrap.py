import numpy as np
import pytest

from diverset.errors import InputError, OptionError
from diverset.evaluation import Ranks, Recalls, paired_bootstrap
from diverset.evaluation.bootstrap import _hits, _resampled_differences


def make_ranks(seed, worse=0, images=60):
    rng = np.random.default_rng(seed)
    image_index = np.concatenate([np.arange(images), rng.integers(0, images, images)])
    image_ranks = rng.integers(1, 15, images) + worse
    text_ranks = rng.integers(1, 15, len(image_index)) + worse
    return Ranks(image_ranks, text_ranks, image_index)


def total(ranks):
    return Recalls.of(ranks.image_to_text).total + Recalls.of(ranks.text_to_image).total


def test_difference_is_the_difference_in_rsum():
    first, second = make_ranks(0), make_ranks(0, worse=1)
    result = paired_bootstrap(first, second, resamples=200)
    assert result.first == pytest.approx(total(first))
    assert result.second == pytest.approx(total(second))
    assert result.difference == pytest.approx(total(second) - total(first))
    assert result.low < result.difference < result.high < 0
    assert result.p_value == pytest.approx(2 / 201)


def test_each_resample_equals_rsum_on_the_drawn_images():
    """Each resample recomputed naively: images repeated with all their captions."""
    first, second = make_ranks(0), make_ranks(1)
    second = Ranks(second.image_to_text, second.text_to_image, first.image_index)
    gains = _hits(second) - _hits(first)
    counts = np.bincount(first.image_index)
    drawn = np.random.default_rng(5).integers(0, 60, (3, 60))
    for value, images in zip(_resampled_differences(gains, counts, 3, seed=5), drawn, strict=True):
        captions = np.concatenate([np.flatnonzero(first.image_index == image) for image in images])
        totals = [
            total(Ranks(run.image_to_text[images], run.text_to_image[captions], first.image_index))
            for run in (first, second)
        ]
        assert value == pytest.approx(totals[1] - totals[0])


def test_result_is_deterministic_and_antisymmetric():
    first, second = (
        make_ranks(0),
        Ranks(make_ranks(1).image_to_text, make_ranks(1).text_to_image, make_ranks(0).image_index),
    )
    forward = paired_bootstrap(first, second, resamples=500, seed=3)
    assert forward == paired_bootstrap(first, second, resamples=500, seed=3)
    assert forward != paired_bootstrap(first, second, resamples=500, seed=4)
    backward = paired_bootstrap(second, first, resamples=500, seed=3)
    assert (backward.low, backward.high) == pytest.approx((-forward.high, -forward.low))
    assert backward.p_value == pytest.approx(forward.p_value)


def test_chunk_size_does_not_change_the_result(monkeypatch):
    first, second = make_ranks(0), make_ranks(0, worse=1)
    whole = paired_bootstrap(first, second, resamples=50)
    monkeypatch.setattr("diverset.evaluation.bootstrap.CHUNK", 60 * 7)
    assert paired_bootstrap(first, second, resamples=50) == whole


def test_identical_runs_have_p_value_1():
    result = paired_bootstrap(make_ranks(0), make_ranks(0), resamples=50)
    assert (result.difference, result.low, result.high, result.p_value) == (0, 0, 0, 1)


def test_false_positive_rate_is_about_the_significance_level():
    """Of runs with equal quality about one in twenty is significant at 5 percent."""
    image_index = np.arange(200)
    p_values = [
        paired_bootstrap(
            *(Ranks(*rng.integers(1, 15, (2, 200)), image_index) for _ in range(2)),
            resamples=400,
        ).p_value
        for rng in map(np.random.default_rng, range(60))
    ]
    assert sum(p < 0.05 for p in p_values) <= 8


def test_bad_input_is_rejected():
    with pytest.raises(InputError, match="60 images and 120 captions, 50 and 100"):
        paired_bootstrap(make_ranks(0), make_ranks(0, images=50))
    with pytest.raises(InputError, match="same order"):
        paired_bootstrap(make_ranks(0), make_ranks(1))
    with pytest.raises(OptionError, match="resamples is 0"):
        paired_bootstrap(make_ranks(0), make_ranks(0), resamples=0)
    with pytest.raises(OptionError, match="confidence is 95"):
        paired_bootstrap(make_ranks(0), make_ranks(0), confidence=95)
