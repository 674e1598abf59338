import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import load_fixture, random_sets

from diverset.errors import OptionError
from diverset.similarity import (
    SIMILARITIES,
    MatchProbability,
    chamfer,
    fast_smooth_chamfer,
    log_sum_exp_smooth_chamfer,
    mil,
    smooth_chamfer,
    smooth_chamfer_gradient,
)

ALPHAS = (1, 2, 4, 8, 16, 32, 64)
TAGS = ("k4", "k4x2", "k1")
PRECISION = {"f32": (torch.float32, 2e-6), "f64": (torch.float64, 1e-9)}


def naive_smooth_chamfer(images, texts, alpha):
    """Eq. 6 written out with loops."""
    scores = torch.zeros(len(images), len(texts), dtype=images.dtype)
    for i, s1 in enumerate(images):
        for j, s2 in enumerate(texts):
            forward = sum(math.log(sum(math.exp(alpha * float(x @ y)) for y in s2)) for x in s1)
            backward = sum(math.log(sum(math.exp(alpha * float(x @ y)) for x in s1)) for y in s2)
            scores[i, j] = forward / (2 * alpha * len(s1)) + backward / (2 * alpha * len(s2))
    return scores


class TestAgainstReleasedCode:
    numbers = load_fixture("similarity")

    def sets(self, tag, dtype):
        return self.numbers[f"{tag}.img"].to(dtype), self.numbers[f"{tag}.txt"].to(dtype)

    @pytest.mark.parametrize("precision", PRECISION)
    @pytest.mark.parametrize("tag", TAGS)
    def test_similarities_equal_those_of_the_released_code(self, tag, precision):
        dtype, tolerance = PRECISION[precision]
        images, texts = self.sets(tag, dtype)
        found = {
            f"smooth_chamfer_a{alpha}": smooth_chamfer(images, texts, alpha) for alpha in ALPHAS
        }
        found["chamfer"] = chamfer(images, texts)
        found["max_mil"] = mil(images, texts)
        found["mp_avg_alpha1_beta0"] = MatchProbability(1, 0)(images, texts)
        found["mp_avg_alpha5_betam2"] = MatchProbability(5, -2)(images, texts)
        for name, scores in found.items():
            expected = self.numbers[f"{tag}.{name}.{precision}"]
            torch.testing.assert_close(scores, expected, atol=tolerance, rtol=0)

    @pytest.mark.parametrize("tag", TAGS)
    def test_gradients_equal_those_of_the_released_code(self, tag):
        images, texts = (sets.requires_grad_() for sets in self.sets(tag, torch.float64))
        smooth_chamfer(images, texts)[0, 0].backward()
        for sets, side in ((images, "img"), (texts, "txt")):
            expected = self.numbers[f"{tag}.grad00_{side}.f64"]
            torch.testing.assert_close(sets.grad, expected, atol=1e-9, rtol=0)


sizes = st.integers(1, 5)
alphas = st.floats(1, 64)
seeds = st.integers(0, 2**16)


@given(sizes, sizes, alphas, seeds)
def test_smooth_chamfer_is_eq_6(k, m, alpha, seed):
    images, texts = random_sets(3, k, 8, torch.float64, seed), random_sets(2, m, 8, torch.float64)
    expected = naive_smooth_chamfer(images, texts, alpha)
    torch.testing.assert_close(smooth_chamfer(images, texts, alpha), expected, atol=1e-9, rtol=0)
    in_f32 = smooth_chamfer(images.float(), texts.float(), alpha)
    torch.testing.assert_close(in_f32.double(), expected, atol=2e-6, rtol=0)


@given(sizes, sizes, alphas, seeds)
def test_similarities_are_symmetric(k, m, alpha, seed):
    images, texts = random_sets(3, k, 8, seed=seed), random_sets(2, m, 8)
    for similarity in (lambda a, b: smooth_chamfer(a, b, alpha), chamfer, mil):
        torch.testing.assert_close(similarity(images, texts), similarity(texts, images).T)


@given(sizes, sizes, alphas, seeds)
def test_smooth_chamfer_lies_just_above_chamfer(k, m, alpha, seed):
    images, texts = random_sets(3, k, 8, torch.float64, seed), random_sets(2, m, 8, torch.float64)
    smooth, hard = smooth_chamfer(images, texts, alpha), chamfer(images, texts)
    assert (smooth >= hard - 1e-12).all()
    assert (smooth <= hard + math.log(max(k, m)) / alpha + 1e-12).all()


def random_cosines(images, k, m, texts, seed):
    """The layout of `pairwise_cosines`: images, elements, text elements, texts."""
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(images, k, m, texts, generator=generator, dtype=torch.float64) - 1


@given(sizes, sizes, st.floats(0.01, 300), seeds)
def test_the_fast_path_equals_eq_7(k, m, alpha, seed):
    cosines = random_cosines(2, k, m, 3, seed)
    expected = log_sum_exp_smooth_chamfer(cosines, alpha)
    with_gradient = fast_smooth_chamfer(cosines.clone().requires_grad_(), alpha).detach()
    torch.testing.assert_close(with_gradient, expected, atol=1e-12, rtol=1e-12)
    in_place = fast_smooth_chamfer(cosines.clone(), alpha)
    torch.testing.assert_close(in_place, expected, atol=1e-12, rtol=1e-12)
    in_f32 = fast_smooth_chamfer(cosines.float(), alpha)
    torch.testing.assert_close(in_f32.double(), expected, atol=1e-5 / min(alpha, 1), rtol=0)


@given(sizes, sizes, alphas, seeds)
def test_eq_8_is_the_gradient_of_both_forms(k, m, alpha, seed):
    cosines = random_cosines(2, k, m, 3, seed).requires_grad_()
    expected = smooth_chamfer_gradient(cosines.detach(), alpha)
    assert (expected >= 0).all()
    torch.testing.assert_close(expected.sum(dim=(1, 2)), torch.ones(2, 3, dtype=torch.float64))
    for form in (log_sum_exp_smooth_chamfer, fast_smooth_chamfer):
        (gradient,) = torch.autograd.grad(form(cosines, alpha).sum(), cosines)
        torch.testing.assert_close(gradient, expected)


@given(sizes, sizes, seeds)
def test_equal_weights_do_not_change_smooth_chamfer(k, m, seed):
    cosines = random_cosines(2, k, m, 3, seed)
    weighted = log_sum_exp_smooth_chamfer(cosines, 16.0, torch.full((k,), 0.3))
    torch.testing.assert_close(weighted, log_sum_exp_smooth_chamfer(cosines, 16.0))


def test_an_integer_weight_repeats_an_element():
    cosines = random_cosines(2, 3, 4, 5, seed=0)
    repeated = log_sum_exp_smooth_chamfer(cosines[:, [0, 0, 2]], 16.0)
    weighted = log_sum_exp_smooth_chamfer(cosines, 16.0, torch.tensor([2.0, 0.0, 1.0]))
    torch.testing.assert_close(weighted, repeated)


@given(sizes, sizes, seeds)
def test_the_order_of_elements_does_not_matter(k, m, seed):
    images, texts = random_sets(3, k, 8, seed=seed), random_sets(2, m, 8)
    for name, similarity in SIMILARITIES.items():
        shuffled = similarity(images[:, torch.randperm(k)], texts[:, torch.randperm(m)])
        torch.testing.assert_close(shuffled, similarity(images, texts), msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("alpha", [1, 16, 64, 200, 1000])
def test_smooth_chamfer_is_finite_for_extreme_cosines(alpha, dtype):
    base = random_sets(6, 4, 16)
    images = torch.cat([base, -base]).to(dtype).requires_grad_()
    scores = smooth_chamfer(images, base.to(dtype), alpha)
    scores.sum().backward()
    assert scores.dtype == torch.float32
    assert scores.isfinite().all() and images.grad.isfinite().all()
    exact = smooth_chamfer(images.detach().double(), base.to(dtype).double(), alpha)
    tolerance = 1e-5 if dtype is torch.float32 else 1e-2
    torch.testing.assert_close(scores.double(), exact, atol=tolerance, rtol=0)


def test_large_alpha_approaches_chamfer():
    images, texts = random_sets(3, 4, 8, torch.float64), random_sets(5, 2, 8, torch.float64, 1)
    smooth = smooth_chamfer(images, texts, 1e6)
    torch.testing.assert_close(smooth, chamfer(images, texts), atol=1e-5, rtol=0)


def test_match_probability_has_two_trained_parameters():
    similarity = MatchProbability()
    similarity(random_sets(3, 2, 8), random_sets(4, 2, 8, seed=1)).sum().backward()
    assert similarity.a.grad.abs() > 0 and similarity.b.grad.abs() > 0


@pytest.mark.parametrize("alpha", [0, -1.0, math.nan, math.inf, None, "16"])
def test_an_invalid_alpha_is_rejected(alpha):
    sets = random_sets(3, 4, 8)
    with pytest.raises(OptionError, match=f"alpha is {alpha!r}; smooth-Chamfer needs"):
        smooth_chamfer(sets, sets, alpha)
