import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import random_sets

from diverset.errors import InputError, ShapeError
from diverset.evaluation import circular_variance, set_health
from diverset.evaluation.health import MIN_VARIANCE


@given(st.integers(2, 5), st.integers(1, 4), st.integers(0, 1000))
def test_health_equals_a_naive_computation(k, m, seed):
    image_index = [0, 2, 1, 2, 0]
    images, texts = random_sets(3, k, 6, seed=seed), random_sets(5, m, 6, seed=seed + 1)
    health = set_health(images, texts, image_index)
    variances, cosines, image_use, text_use = [], [], np.zeros(k), np.zeros(m)
    for elements in images.double():
        variances.append(1 - float(sum(elements) / k @ (sum(elements) / k)) ** 0.5)
        cosines += [float(elements[i] @ elements[j]) for i in range(k) for j in range(i)]
    for text, image in enumerate(image_index):
        pairs = images[image].double() @ texts[text].double().T
        pair = int(pairs.argmax())
        image_use[pair // m] += 1 / 5
        text_use[pair % m] += 1 / 5
    assert health.images.mean_log_variance == pytest.approx(np.log(variances).mean(), abs=1e-5)
    assert health.images.log_mean_variance == pytest.approx(np.log(np.mean(variances)), abs=1e-5)
    assert health.images.mean_cosine == pytest.approx(np.mean(cosines), abs=1e-5)
    assert health.images.slot_use == pytest.approx(image_use)
    assert health.texts.slot_use == pytest.approx(text_use)
    assert health.texts.elements == m and (health.texts.mean_cosine is None) == (m == 1)


def test_collapsed_sets_have_almost_no_variance():
    images = random_sets(6, 1, 16).expand(6, 4, 16)
    health = set_health(images, images, range(6)).images
    assert health.mean_cosine == pytest.approx(1)
    assert health.mean_log_variance <= math.log(1e-10)
    assert health.mean_log_variance >= math.log(MIN_VARIANCE) - 1e-9
    assert health.slot_use == pytest.approx((0.25,) * 4)  # equal elements share the work


def test_almost_collapsed_sets_are_told_apart():
    """Rounding of float32 is a thousand times larger than the smaller of these variances."""
    base, noise = random_sets(50, 1, 64, torch.float64), random_sets(50, 4, 64, torch.float64, 1)
    near, nearer = (
        circular_variance(torch.nn.functional.normalize(base + size * noise, dim=-1)).mean()
        for size in (1e-3, 1e-5)
    )
    assert (near / nearer).item() == pytest.approx(1e4, rel=0.05)


def test_sets_of_one_have_no_spread():
    health = set_health(random_sets(2, 1, 4), random_sets(2, 1, 4), [1, 0]).images
    assert (health.mean_log_variance, health.log_mean_variance, health.mean_cosine) == (None,) * 3
    assert health.slot_use == (1.0,)


def test_bad_input_is_named():
    sets = random_sets(3, 2, 4)
    with pytest.raises(ShapeError, match=r"\(2,\) for 3 texts"):
        set_health(sets, sets, [0, 1])
    with pytest.raises(InputError, match="norm"):
        set_health(sets * 2, sets, [0, 1, 2])
