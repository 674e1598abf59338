import numpy as np
import pytest

from diverset.errors import InputError, OptionError
from diverset.evaluation import Ranks, Recalls, paired_bootstrap, rsum
from diverset.evaluation.bootstrap import _drawn_differences, _hits


def run(seed, worse=0, images=60):
    generator = np.random.default_rng(seed)
    owners = np.concatenate([np.arange(images), generator.integers(0, images, images)])
    forth = generator.integers(1, 15, images) + worse
    back = generator.integers(1, 15, len(owners)) + worse
    return Ranks(forth, back, owners)


def total(ranks):
    return rsum(Recalls.of(ranks.image_to_text), Recalls.of(ranks.text_to_image))


def test_differences_are_those_of_rsum():
    first, second = run(0), run(0, worse=1)
    found = paired_bootstrap(first, second, resamples=200)
    assert found.first == pytest.approx(total(first))
    assert found.second == pytest.approx(total(second))
    assert found.difference == pytest.approx(total(second) - total(first))
    assert found.low < found.difference < found.high < 0
    assert found.p_value == pytest.approx(2 / 201)


def test_a_drawing_is_rsum_on_the_drawn_images():
    """Each drawing recomputed the long way: images repeated with all their captions."""
    first, second = run(0), run(1)
    second = Ranks(second.image_to_text, second.text_to_image, first.owners)
    gains = [b - a for a, b in zip(_hits(first), _hits(second), strict=True)]
    counts = np.bincount(first.owners).astype(float)
    drawn = np.random.default_rng(5).integers(0, 60, (3, 60))
    for value, images in zip(_drawn_differences(gains, counts, 3, seed=5), drawn, strict=True):
        captions = np.concatenate([np.flatnonzero(first.owners == image) for image in images])
        totals = [
            total(Ranks(one.image_to_text[images], one.text_to_image[captions], first.owners))
            for one in (first, second)
        ]
        assert value == pytest.approx(totals[1] - totals[0])


def test_is_deterministic_and_antisymmetric():
    first, second = run(0), Ranks(run(1).image_to_text, run(1).text_to_image, run(0).owners)
    one = paired_bootstrap(first, second, resamples=500, seed=3)
    assert one == paired_bootstrap(first, second, resamples=500, seed=3)
    assert one != paired_bootstrap(first, second, resamples=500, seed=4)
    back = paired_bootstrap(second, first, resamples=500, seed=3)
    assert (back.low, back.high) == pytest.approx((-one.high, -one.low))
    assert back.p_value == pytest.approx(one.p_value)


def test_chunks_do_not_change_the_drawings(monkeypatch):
    first, second = run(0), run(0, worse=1)
    whole = paired_bootstrap(first, second, resamples=50)
    monkeypatch.setattr("diverset.evaluation.bootstrap.CHUNK", 60 * 7)
    assert paired_bootstrap(first, second, resamples=50) == whole


def test_equal_runs_do_not_differ():
    found = paired_bootstrap(run(0), run(0), resamples=50)
    assert (found.difference, found.low, found.high, found.p_value) == (0, 0, 0, 1)


def test_chance_is_not_called_a_difference():
    """Runs of the same quality: about one in twenty is significant at 5 percent."""
    owners = np.arange(200)
    found = [
        paired_bootstrap(
            *(Ranks(*generator.integers(1, 15, (2, 200)), owners) for _ in range(2)),
            resamples=400,
        ).p_value
        for generator in map(np.random.default_rng, range(60))
    ]
    assert sum(p < 0.05 for p in found) <= 8


def test_bad_input_is_named():
    with pytest.raises(InputError, match="60 images and 120 captions, 50 and 100"):
        paired_bootstrap(run(0), run(0, images=50))
    with pytest.raises(InputError, match="same order"):
        paired_bootstrap(run(0), run(1))
    with pytest.raises(OptionError, match="resamples is 0"):
        paired_bootstrap(run(0), run(0), resamples=0)
    with pytest.raises(OptionError, match="confidence is 95"):
        paired_bootstrap(run(0), run(0), confidence=95)
