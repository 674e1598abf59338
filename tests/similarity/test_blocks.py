import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import random_sets

from diverset.errors import OptionError
from diverset.similarity import (
    SIMILARITIES,
    MatchProbability,
    mil,
    similarity_blocks,
    similarity_matrix,
    smooth_chamfer,
)

sizes = st.integers(1, 5)
seeds = st.integers(0, 2**16)


@given(st.integers(1, 40), st.integers(1, 60), sizes, sizes, seeds)
def test_blocks_equal_the_whole_matrix(count, others, k, m, seed):
    images, texts = random_sets(count, k, 8, seed=seed), random_sets(others, m, 8)
    names = {"smooth_chamfer": {"alpha": 8.0}, "chamfer": {}, "mil": {}}
    for name, options in names.items():
        whole = SIMILARITIES[name](images, texts, **options)
        blocks = similarity_matrix(images, texts, name, max_memory=2**20, **options)
        torch.testing.assert_close(blocks, whole, atol=2e-7, rtol=0)


def test_a_small_memory_bound_takes_many_small_blocks():
    """500 x 700 sets within 1 MiB."""
    images, texts = random_sets(500, 4, 8), random_sets(700, 4, 8, seed=1)
    calls = []

    def counted(a, b):
        calls.append((len(a), len(b)))
        return mil(a, b)

    scores = similarity_matrix(images, texts, counted, max_memory=2**20)
    assert len(calls) > 10
    assert all(12 * 16 * a * b <= 2**20 for a, b in calls)
    torch.testing.assert_close(scores, mil(images, texts))


def test_only_selected_blocks_are_scored_in_the_order_of_texts():
    """Both passes give the same bits."""
    images, texts = random_sets(20, 4, 8), random_sets(30, 4, 8, seed=1)
    order = torch.randperm(30)
    whole = smooth_chamfer(images, texts)[:, order]

    def run():
        return similarity_blocks(
            images,
            texts,
            block=(8, 16),
            order=order,
            select=lambda rows, columns: (rows.start, columns.start) != (8, 16),
        )

    seen = torch.zeros(20, 30)
    for (rows, columns, scores), (*_, again) in zip(run(), run(), strict=True):
        torch.testing.assert_close(scores, whole[rows, columns], atol=2e-7, rtol=0)
        assert torch.equal(scores, again)
        seen[rows, columns] += 1
    assert seen.sum() == 20 * 30 - 8 * 14 and seen[8:16, 16:].sum() == 0


def test_scores_of_a_block_survive_the_next_block():
    images, texts = random_sets(20, 4, 8), random_sets(30, 4, 8, seed=1)
    for name in SIMILARITIES:
        blocks = list(similarity_blocks(images, texts, name, block=(7, 9)))
        for rows, columns, scores in blocks:
            expected = SIMILARITIES[name](images[rows], texts[columns])
            torch.testing.assert_close(scores, expected, atol=2e-7, rtol=0)


def test_a_custom_similarity_works_in_blocks():
    images, texts = random_sets(30, 3, 8), random_sets(20, 2, 8, seed=1)
    trained = MatchProbability(5, -2)
    blocks = similarity_matrix(images, texts, trained)
    torch.testing.assert_close(blocks, trained(images, texts).detach())


def test_inputs_are_not_modified():
    images, texts = random_sets(3, 1, 8), random_sets(4, 1, 8, seed=1)
    before = images.clone(), texts.clone()
    similarity_matrix(images, texts)
    smooth_chamfer(images, texts)
    assert torch.equal(images, before[0]) and torch.equal(texts, before[1])


def test_empty_collections_give_an_empty_matrix():
    texts = random_sets(5, 4, 8)
    assert similarity_matrix(texts[:0], texts).shape == (0, 5)
    assert similarity_matrix(texts, texts[:0]).shape == (5, 0)


def test_sets_of_different_precision_are_promoted():
    sets = random_sets(3, 4, 8)
    scores = smooth_chamfer(sets, sets.double())
    assert scores.dtype == torch.float64
    torch.testing.assert_close(similarity_matrix(sets, sets.double()), scores)
    assert smooth_chamfer(sets, sets.bfloat16()).dtype == torch.float32


@pytest.mark.parametrize(
    ("similarity", "options", "message"),
    [
        ("chamfr", {}, "'chamfr'; choose one of: smooth_chamfer"),
        ("smooth_chamfer", {"max_memory": 7}, "max_memory is 7"),
        ("chamfer", {"alpha": 1.0}, "chamfer has no option alpha; it has: none"),
        ("smooth_chamfer", {"beta": 1.0}, "smooth_chamfer has no option beta; it has: alpha"),
    ],
)
def test_invalid_options_are_rejected_by_name(similarity, options, message):
    sets = random_sets(3, 4, 8)
    with pytest.raises(OptionError, match=message):
        similarity_matrix(sets, sets, similarity, **options)
