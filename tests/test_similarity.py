import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import load_fixture, random_sets
from torch.nn import functional as F

from diverset.errors import InputError, OptionError, ShapeError
from diverset.similarity import (
    SIMILARITIES,
    MatchProbability,
    chamfer,
    mil,
    similarity_blocks,
    similarity_matrix,
    smooth_chamfer,
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
    def test_all_similarities(self, tag, precision):
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
    def test_gradient(self, tag):
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
def test_smooth_chamfer_is_symmetric(k, m, alpha, seed):
    images, texts = random_sets(3, k, 8, seed=seed), random_sets(2, m, 8)
    for similarity in (lambda a, b: smooth_chamfer(a, b, alpha), chamfer, mil):
        torch.testing.assert_close(similarity(images, texts), similarity(texts, images).T)


@given(sizes, sizes, alphas, seeds)
def test_smooth_chamfer_lies_just_above_chamfer(k, m, alpha, seed):
    images, texts = random_sets(3, k, 8, torch.float64, seed), random_sets(2, m, 8, torch.float64)
    smooth, hard = smooth_chamfer(images, texts, alpha), chamfer(images, texts)
    assert (smooth >= hard - 1e-12).all()
    assert (smooth <= hard + math.log(max(k, m)) / alpha + 1e-12).all()


@given(sizes, sizes, alphas, seeds)
def test_gradient_is_eq_8(k, m, alpha, seed):
    """With one-hot texts the gradient with respect to an image element is that of its cosines."""
    images = random_sets(1, k, 8, torch.float64, seed).requires_grad_()
    texts = torch.eye(8, dtype=torch.float64)[None, :m]
    smooth_chamfer(images, texts, alpha).sum().backward()
    weights = (alpha * images[0, :, :m].detach()).exp()
    expected = weights / weights.sum(1, keepdim=True) / (2 * k)
    expected += weights / weights.sum(0, keepdim=True) / (2 * m)
    torch.testing.assert_close(images.grad[0, :, :m], expected)
    assert expected.sum().item() == pytest.approx(1)


@given(sizes, sizes, seeds)
def test_order_of_elements_does_not_matter(k, m, seed):
    images, texts = random_sets(3, k, 8, seed=seed), random_sets(2, m, 8)
    for name, similarity in SIMILARITIES.items():
        shuffled = similarity(images[:, torch.randperm(k)], texts[:, torch.randperm(m)])
        torch.testing.assert_close(shuffled, similarity(images, texts), msg=name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("alpha", [1, 16, 64, 200, 1000])
def test_stable_for_extreme_cosines(alpha, dtype):
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


def test_match_probability_trains_both_numbers():
    similarity = MatchProbability()
    similarity(random_sets(3, 2, 8), random_sets(4, 2, 8, seed=1)).sum().backward()
    assert similarity.a.grad.abs() > 0 and similarity.b.grad.abs() > 0


@given(st.integers(1, 40), st.integers(1, 60), sizes, sizes, seeds)
def test_blocks_equal_one_shot(count, others, k, m, seed):
    images, texts = random_sets(count, k, 8, seed=seed), random_sets(others, m, 8)
    names = {"smooth_chamfer": {"alpha": 8.0}, "chamfer": {}, "mil": {}}
    for name, options in names.items():
        whole = SIMILARITIES[name](images, texts, **options)
        blocks = similarity_matrix(images, texts, name, max_memory=2**20, **options)
        torch.testing.assert_close(blocks, whole, atol=2e-7, rtol=0)


def test_blocks_are_really_blocks(monkeypatch):
    """With the smallest memory bound, 500 x 700 sets take many calls and give the same numbers."""
    images, texts = random_sets(500, 4, 8), random_sets(700, 4, 8, seed=1)
    calls = []

    def counted(a, b):
        calls.append((len(a), len(b)))
        return mil(a, b)

    scores = similarity_matrix(images, texts, counted, max_memory=2**20)
    assert len(calls) > 10
    assert all(12 * 16 * a * b <= 2**20 for a, b in calls)
    torch.testing.assert_close(scores, mil(images, texts))


def test_chosen_blocks_are_scored_and_nothing_else():
    """Texts in another order, one block left out, and the same bits in a second pass."""
    images, texts = random_sets(20, 4, 8), random_sets(30, 4, 8, seed=1)
    order = torch.randperm(30)
    whole = smooth_chamfer(images, texts)[:, order]

    def walk():
        return similarity_blocks(
            images,
            texts,
            block=(8, 16),
            order=order,
            wanted=lambda rows, columns: (rows.start, columns.start) != (8, 16),
        )

    seen = torch.zeros(20, 30)
    for (rows, columns, scores), (*_, again) in zip(walk(), walk(), strict=True):
        torch.testing.assert_close(scores, whole[rows, columns], atol=2e-7, rtol=0)
        assert torch.equal(scores, again)
        seen[rows, columns] += 1
    assert seen.sum() == 20 * 30 - 8 * 14 and seen[8:16, 16:].sum() == 0


def test_blocks_do_not_share_their_memory():
    images, texts = random_sets(20, 4, 8), random_sets(30, 4, 8, seed=1)
    for name in SIMILARITIES:
        kept = list(similarity_blocks(images, texts, name, block=(7, 9)))
        for rows, columns, scores in kept:
            expected = SIMILARITIES[name](images[rows], texts[columns])
            torch.testing.assert_close(scores, expected, atol=2e-7, rtol=0)


def test_any_function_of_two_batches_works_in_blocks():
    images, texts = random_sets(30, 3, 8), random_sets(20, 2, 8, seed=1)
    trained = MatchProbability(5, -2)
    blocks = similarity_matrix(images, texts, trained)
    torch.testing.assert_close(blocks, trained(images, texts).detach())


def test_inputs_are_left_alone():
    images, texts = random_sets(3, 1, 8), random_sets(4, 1, 8, seed=1)
    before = images.clone(), texts.clone()
    similarity_matrix(images, texts)
    smooth_chamfer(images, texts)
    assert torch.equal(images, before[0]) and torch.equal(texts, before[1])


def test_empty_collections_give_empty_scores():
    texts = random_sets(5, 4, 8)
    assert similarity_matrix(texts[:0], texts).shape == (0, 5)
    assert similarity_matrix(texts, texts[:0]).shape == (5, 0)


good = random_sets(3, 4, 8)
with_nan, with_zero = good.clone(), good.clone()
with_nan[1, 2, 0] = math.nan
with_zero[2, 3] = 0


@pytest.mark.parametrize(
    ("images", "texts", "error", "says"),
    [
        (good[0], good, ShapeError, r"images has shape \(4, 8\)"),
        (good, good[..., :6], ShapeError, "8 wide and texts 6|norm"),
        (good, F.normalize(good[..., :6], dim=-1), ShapeError, "8 wide and texts 6"),
        (good[:, :0], good, ShapeError, r"\(3, 0, 8\)"),
        (with_nan, good, InputError, r"element 2 of images\[1\] has norm nan"),
        (good, with_zero, InputError, r"element 3 of texts\[2\] has norm 0"),
        (good * 3, good, InputError, "norm 3"),
        (good.long(), good, InputError, "int64"),
    ],
)
def test_bad_sets_are_named(images, texts, error, says):
    for similarity in (smooth_chamfer, chamfer, mil, MatchProbability(), similarity_matrix):
        with pytest.raises((error, InputError), match=says):
            similarity(images, texts)


def test_bad_options_are_named():
    with pytest.raises(OptionError, match="'chamfr'; choose one of: smooth_chamfer"):
        similarity_matrix(good, good, "chamfr")
    with pytest.raises(OptionError, match="alpha is 0"):
        smooth_chamfer(good, good, alpha=0)
    with pytest.raises(OptionError, match="alpha is nan"):
        smooth_chamfer(good, good, alpha=math.nan)
    with pytest.raises(OptionError, match="max_memory is 7"):
        similarity_matrix(good, good, max_memory=7)


def test_more_bad_options_are_named():
    with pytest.raises(OptionError, match="chamfer has no option alpha; it has: none"):
        similarity_matrix(good, good, "chamfer", alpha=1.0)
    for alpha in (None, "16", math.inf):
        with pytest.raises(OptionError, match="alpha is"):
            smooth_chamfer(good, good, alpha)
    with pytest.raises(InputError, match="images is a ndarray; give a torch tensor"):
        smooth_chamfer(good.numpy(), good)
    with pytest.raises(ShapeError, match="8 wide and texts 6"):
        smooth_chamfer(good, good[..., :6])


def test_sets_of_different_precision_compare():
    scores = smooth_chamfer(good, good.double())
    assert scores.dtype == torch.float64
    torch.testing.assert_close(similarity_matrix(good, good.double()), scores)
    assert smooth_chamfer(good, good.bfloat16()).dtype == torch.float32
