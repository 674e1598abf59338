from dataclasses import astuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import FIVE_EACH, KINDS, load_fixture, random_sets

from diverset.errors import InputError, OptionError, ShapeError
from diverset.evaluation import Member, Recalls, ensemble_ranks, ranks
from diverset.similarity import MatchProbability, similarity_matrix, smooth_chamfer


def naive_ranks(scores, image_index):
    """1 + the number of non-matching items that score as high, counted naively."""
    image_ranks = []
    for image in range(len(scores)):
        best = max(
            scores[image, text] for text in range(len(image_index)) if image_index[text] == image
        )
        others = [
            scores[image, text] for text in range(len(image_index)) if image_index[text] != image
        ]
        image_ranks.append(1 + sum(bool(score >= best) for score in others))
    text_ranks = []
    for text, own in enumerate(image_index):
        others = [scores[image, text] for image in range(len(scores)) if image != own]
        text_ranks.append(1 + sum(bool(score >= scores[own, text]) for score in others))
    return image_ranks, text_ranks


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_and_recalls_equal_released_code(kind):
    numbers = load_fixture("evaluation")
    result = ranks(numbers["img"], numbers["txt"], FIVE_EACH, KINDS[kind])
    assert (result.image_to_text - 1).tolist() == numbers[f"{kind}.i2t_ranks"].tolist()
    assert (result.text_to_image - 1).tolist() == numbers[f"{kind}.t2i_ranks"].tolist()
    for ranked, direction in ((result.image_to_text, "i2t"), (result.text_to_image, "t2i")):
        metrics = list(astuple(Recalls.of(ranked)))
        assert metrics == pytest.approx(numbers[f"{kind}.{direction}_metrics"].tolist(), rel=1e-12)


def uneven_image_index(images, extra, seed):
    """Image indices in random order; every image has at least one caption."""
    generator = np.random.default_rng(seed)
    image_index = np.concatenate([np.arange(images), generator.integers(0, images, extra)])
    return generator.permutation(image_index)


@given(st.integers(1, 12), st.integers(0, 20), st.integers(1, 4), st.integers(1, 4), st.integers(0))
def test_ranks_equal_a_naive_count_for_any_image_index(images, extra, k, m, seed):
    image_index = uneven_image_index(images, extra, seed)
    image_sets = random_sets(images, k, 3, torch.float64, seed % 1000)
    text_sets = random_sets(len(image_index), m, 3, torch.float64, seed % 1000 + 1)
    image_ranks, text_ranks = naive_ranks(similarity_matrix(image_sets, text_sets), image_index)
    result = ranks(image_sets, text_sets, image_index)
    assert (
        result.image_to_text.tolist() == image_ranks and result.text_to_image.tolist() == text_ranks
    )
    assert result.image_index.tolist() == image_index.tolist()


@given(st.integers(2, 8), st.integers(0, 10), st.integers(0))
def test_ties_count_against_the_model(images, extra, seed):
    """Few distinct sets, so that most scores are duplicates."""
    image_index = uneven_image_index(images, extra, seed)
    generator = torch.Generator().manual_seed(seed % 1000)
    few = torch.eye(4, dtype=torch.float64)[:3, None]
    image_sets = few[torch.randint(3, (images,), generator=generator)]
    text_sets = few[torch.randint(3, (len(image_index),), generator=generator)]
    image_ranks, text_ranks = naive_ranks(
        similarity_matrix(image_sets, text_sets, "mil"), image_index
    )
    result = ranks(image_sets, text_sets, image_index, "mil")
    assert (
        result.image_to_text.tolist() == image_ranks and result.text_to_image.tolist() == text_ranks
    )


@pytest.mark.parametrize("max_memory", [2**20, 2**29])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_collapsed_sets_get_the_worst_ranks(max_memory, dtype):
    image, text = random_sets(2, 4, 512, dtype)
    image_index = np.arange(203) % 101
    sets = image.expand(101, 4, 512), text.expand(203, 4, 512)
    result = ranks(*sets, image_index, max_memory=max_memory)
    own = np.bincount(image_index)
    assert result.image_to_text.tolist() == (203 - own + 1).tolist()
    assert (result.text_to_image == 101).all()


@pytest.mark.parametrize("max_memory", [2**20, 2**29])
def test_duplicates_tie_despite_rounding(max_memory):
    """A product may round the same pair differently in different positions."""
    images = random_sets(60, 2, 256, torch.float64)
    texts = random_sets(60, 2, 256, torch.float64, seed=1)
    image_index = np.arange(120)
    for kind in ("mil", "chamfer", "smooth_chamfer", MatchProbability()):
        once = ranks(images, texts, image_index[:60], kind, max_memory=max_memory)
        copied = images.repeat(2, 1, 1), texts.repeat(2, 1, 1)
        twice = ranks(*copied, image_index, kind, max_memory=max_memory)
        for a, b in (
            (once.image_to_text, twice.image_to_text),
            (once.text_to_image, twice.text_to_image),
        ):
            # Every item exists twice: the better ones, the ties, and the match itself.
            assert b.tolist() == (2 * a).tolist() * 2


def test_identical_sets_with_different_scores_do_not_tie():
    sets = random_sets(1, 1, 8).expand(3, 1, 8)
    result = ranks(sets, sets, range(3), lambda a, b: torch.eye(3))
    assert result.image_to_text.tolist() == result.text_to_image.tolist() == [1, 1, 1]


@pytest.mark.parametrize("kind", ["smooth_chamfer", "chamfer", "mil"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_many_blocks_equal_one_block(kind, dtype):
    """The smallest memory bound, captions out of order, compared with the whole matrix."""
    image_index = uneven_image_index(300, 500, seed=3)
    image_sets, text_sets = (
        random_sets(300, 4, 16, dtype),
        random_sets(len(image_index), 4, 16, dtype, seed=1),
    )
    blocks = ranks(image_sets, text_sets, image_index, kind, max_memory=2**20)
    whole = ranks(image_sets, text_sets, image_index, kind)
    # Other blocks round differently: ranks of almost equal scores may swap.
    for a, b in zip(
        (blocks.image_to_text, blocks.text_to_image),
        (whole.image_to_text, whole.text_to_image),
        strict=True,
    ):
        assert np.abs(a - b).max() <= (30 if dtype is torch.bfloat16 else 1)
        assert dtype is not torch.float64 or np.array_equal(a, b)


def test_options_are_passed_to_the_similarity():
    image_index = uneven_image_index(30, 60, seed=0)
    image_sets, text_sets = random_sets(30, 4, 8), random_sets(90, 4, 8, seed=1)
    by_name = ranks(image_sets, text_sets, image_index, alpha=2.0)
    by_hand = ranks(
        image_sets, text_sets, image_index, lambda a, b: smooth_chamfer(a, b, alpha=2.0)
    )
    assert by_name.text_to_image.tolist() == by_hand.text_to_image.tolist()
    assert (
        by_name.text_to_image.tolist()
        != ranks(image_sets, text_sets, image_index).text_to_image.tolist()
    )


def test_ensemble_ranks_by_the_mean_similarity():
    image_index = uneven_image_index(20, 40, seed=0)
    first = Member(random_sets(20, 4, 8, torch.float64), random_sets(60, 4, 8, torch.float64, 1))
    second = Member(
        random_sets(20, 2, 6, torch.float64, 2),
        random_sets(60, 3, 6, torch.float64, 3),
        "smooth_chamfer",
        {"alpha": 4.0},
    )
    scores = similarity_matrix(first.images, first.texts)
    scores = (scores + similarity_matrix(second.images, second.texts, alpha=4.0)) / 2
    result = ensemble_ranks([first, second], image_index)
    assert (result.image_to_text.tolist(), result.text_to_image.tolist()) == naive_ranks(
        scores, image_index
    )
    alone = ensemble_ranks([first], image_index)
    twice = ensemble_ranks([first, first], image_index)
    assert alone.text_to_image.tolist() == twice.text_to_image.tolist()


def test_scores_of_the_caller_are_not_modified():
    """Ranking does not write into scores that belong to the caller."""
    image_sets, text_sets = random_sets(5, 1, 8), random_sets(5, 1, 8, seed=1)
    scores = similarity_matrix(image_sets, text_sets)
    before = scores.clone()
    ranks(image_sets, text_sets, range(5), lambda a, b: scores)
    assert torch.equal(scores, before)


def test_median_is_rounded_down_and_ranks_start_at_1():
    assert Recalls.of(np.array([1, 2])).median_rank == 1
    assert Recalls.of(np.array([1, 1, 1])) == Recalls(100, 100, 100, 1, 1)
    assert Recalls.mean([Recalls(0, 0, 0, 1, 2), Recalls(100, 100, 100, 2, 4)]) == Recalls(
        50, 50, 50, 1.5, 3
    )


image_sets, text_sets = random_sets(3, 4, 8), random_sets(6, 2, 8)
good = [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("images", "texts", "image_index", "error", "says"),
    [
        (
            image_sets,
            text_sets,
            [0, 0, 1, 1, 2, 3],
            InputError,
            "text 5 belongs to image 3, but",
        ),
        (image_sets, text_sets, [0, 0, 1, 1, 2, -1], InputError, "image -1"),
        (image_sets, text_sets, [0, 0, 1, 1, 1, 1], InputError, "1 images have no text: 2"),
        (image_sets, text_sets, good[:5], ShapeError, r"shape \(5,\) for 6 texts"),
        (image_sets, text_sets, [good], ShapeError, r"\(1, 6\)"),
        (image_sets, text_sets, np.array(good) * 1.0, InputError, "float64"),
        (image_sets, random_sets(6, 2, 7), good, ShapeError, "8 wide and texts 7"),
        (image_sets[0], text_sets, [0, 0, 1, 1, 2, 3], ShapeError, r"\(4, 8\)"),
        (image_sets * 2, text_sets, good, InputError, "norm 2"),
        (image_sets[:0], text_sets, good, InputError, "0 images and 6 texts"),
    ],
)
def test_bad_input_is_rejected(images, texts, image_index, error, says):
    with pytest.raises(error, match=says):
        ranks(images, texts, image_index)


def test_bad_similarities_are_rejected():
    with pytest.raises(OptionError, match="'chamfr'; choose one of"):
        ranks(image_sets, text_sets, good, "chamfr")
    with pytest.raises(ShapeError, match=r"returned shape \(6, 3\) for 3 images and 6 texts"):
        ranks(image_sets, text_sets, good, lambda a, b: torch.zeros(len(b), len(a)))
    with pytest.raises(InputError, match="text 0 scores nan with its own image"):
        ranks(image_sets, text_sets, good, lambda a, b: torch.full((len(a), len(b)), torch.nan))
    with pytest.raises(InputError, match="no ranks"):
        Recalls.of(np.array([], dtype=np.int64))


def test_a_nan_score_counts_against_the_model():
    scores = torch.eye(3)
    scores[0, 1] = torch.nan
    result = ranks(image_sets, text_sets[:3], [0, 1, 2], lambda a, b: scores)
    assert result.image_to_text.tolist() == [2, 1, 1]
    assert result.text_to_image.tolist() == [1, 2, 1]


def test_members_of_different_sizes_are_rejected():
    with pytest.raises(ShapeError, match="member 1 of the ensemble has 3 images and 5 texts"):
        ensemble_ranks([Member(image_sets, text_sets), Member(image_sets, text_sets[:5])], good)
    with pytest.raises(InputError, match="at least one member"):
        ensemble_ranks([], good)
