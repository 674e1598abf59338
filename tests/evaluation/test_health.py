import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import random_sets

from diverset.errors import InputError, ShapeError
from diverset.evaluation import circular_variance, set_health
from diverset.evaluation.health import LEAST_VARIANCE


@given(st.integers(2, 5), st.integers(1, 4), st.integers(0, 1000))
def test_is_the_definition(k, m, seed):
    owners = [0, 2, 1, 2, 0]
    images, texts = random_sets(3, k, 6, seed=seed), random_sets(5, m, 6, seed=seed + 1)
    found = set_health(images, texts, owners)
    variances, cosines, carried, text_carried = [], [], np.zeros(k), np.zeros(m)
    for one in images.double():
        variances.append(1 - float(sum(one) / k @ (sum(one) / k)) ** 0.5)
        cosines += [float(one[i] @ one[j]) for i in range(k) for j in range(i)]
    for text, owner in enumerate(owners):
        pairs = images[owner].double() @ texts[text].double().T
        place = int(pairs.argmax())
        carried[place // m] += 1 / 5
        text_carried[place % m] += 1 / 5
    assert found.images.mean_log_variance == pytest.approx(np.log(variances).mean(), abs=1e-5)
    assert found.images.log_mean_variance == pytest.approx(np.log(np.mean(variances)), abs=1e-5)
    assert found.images.mean_cosine == pytest.approx(np.mean(cosines), abs=1e-5)
    assert found.images.slot_use == pytest.approx(carried)
    assert found.texts.slot_use == pytest.approx(text_carried)
    assert found.texts.elements == m and (found.texts.mean_cosine is None) == (m == 1)


def test_collapsed_sets_show():
    images = random_sets(6, 1, 16).expand(6, 4, 16)
    found = set_health(images, images, range(6)).images
    assert found.mean_cosine == pytest.approx(1)
    assert found.mean_log_variance <= math.log(1e-10)
    assert found.mean_log_variance >= math.log(LEAST_VARIANCE) - 1e-9
    assert found.slot_use == pytest.approx((0.25,) * 4)  # equal elements share the work


def test_almost_collapsed_sets_are_told_apart():
    """Rounding of float32 is a thousand times larger than the smaller of these variances."""
    base, noise = random_sets(50, 1, 64, torch.float64), random_sets(50, 4, 64, torch.float64, 1)
    near, nearer = (
        circular_variance(torch.nn.functional.normalize(base + size * noise, dim=-1)).mean()
        for size in (1e-3, 1e-5)
    )
    assert (near / nearer).item() == pytest.approx(1e4, rel=0.05)


def test_sets_of_one_have_no_spread():
    found = set_health(random_sets(2, 1, 4), random_sets(2, 1, 4), [1, 0]).images
    assert (found.mean_log_variance, found.log_mean_variance, found.mean_cosine) == (None,) * 3
    assert found.slot_use == (1.0,)


def test_bad_input_is_named():
    sets = random_sets(3, 2, 4)
    with pytest.raises(ShapeError, match=r"\(2,\) for 3 texts"):
        set_health(sets, sets, [0, 1])
    with pytest.raises(InputError, match="norm"):
        set_health(sets * 2, sets, [0, 1, 2])
