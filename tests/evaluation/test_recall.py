import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import FIVE_EACH, KINDS, load_fixture, random_sets

from diverset.errors import InputError, OptionError, ShapeError
from diverset.evaluation import Member, Recalls, ensemble_ranks, ranks
from diverset.similarity import MatchProbability, similarity_matrix, smooth_chamfer


def naive_ranks(scores, owners):
    """1 + the number of foreign items that score as high, counted one by one."""
    forth = []
    for image in range(len(scores)):
        best = max(scores[image, text] for text in range(len(owners)) if owners[text] == image)
        foreign = [scores[image, text] for text in range(len(owners)) if owners[text] != image]
        forth.append(1 + sum(bool(score >= best) for score in foreign))
    back = []
    for text, owner in enumerate(owners):
        foreign = [scores[image, text] for image in range(len(scores)) if image != owner]
        back.append(1 + sum(bool(score >= scores[owner, text]) for score in foreign))
    return forth, back


@pytest.mark.parametrize("kind", KINDS)
def test_against_released_code(kind):
    numbers = load_fixture("evaluation")
    found = ranks(numbers["img"], numbers["txt"], FIVE_EACH, KINDS[kind])
    assert (found.image_to_text - 1).tolist() == numbers[f"{kind}.i2t_ranks"].tolist()
    assert (found.text_to_image - 1).tolist() == numbers[f"{kind}.t2i_ranks"].tolist()
    for ranked, way in ((found.image_to_text, "i2t"), (found.text_to_image, "t2i")):
        one = Recalls.of(ranked)
        metrics = [one.r1, one.r5, one.r10, one.median_rank, one.mean_rank]
        assert metrics == pytest.approx(numbers[f"{kind}.{way}_metrics"].tolist(), rel=1e-12)


def uneven_owners(images, extra, seed):
    """Every image has a caption, some have more, in no order."""
    generator = np.random.default_rng(seed)
    owners = np.concatenate([np.arange(images), generator.integers(0, images, extra)])
    return generator.permutation(owners)


@given(st.integers(1, 12), st.integers(0, 20), st.integers(1, 4), st.integers(1, 4), st.integers(0))
def test_is_the_definition_for_any_owners(images, extra, k, m, seed):
    owners = uneven_owners(images, extra, seed)
    ours = random_sets(images, k, 3, torch.float64, seed % 1000)
    theirs = random_sets(len(owners), m, 3, torch.float64, seed % 1000 + 1)
    forth, back = naive_ranks(similarity_matrix(ours, theirs), owners)
    found = ranks(ours, theirs, owners)
    assert found.image_to_text.tolist() == forth and found.text_to_image.tolist() == back
    assert found.owners.tolist() == owners.tolist()


@given(st.integers(2, 8), st.integers(0, 10), st.integers(0))
def test_ties_are_counted_against(images, extra, seed):
    """Few distinct sets, so that most scores stand several times."""
    owners = uneven_owners(images, extra, seed)
    generator = torch.Generator().manual_seed(seed % 1000)
    few = torch.eye(4, dtype=torch.float64)[:3, None]
    ours = few[torch.randint(3, (images,), generator=generator)]
    theirs = few[torch.randint(3, (len(owners),), generator=generator)]
    forth, back = naive_ranks(similarity_matrix(ours, theirs, "mil"), owners)
    found = ranks(ours, theirs, owners, "mil")
    assert found.image_to_text.tolist() == forth and found.text_to_image.tolist() == back


@pytest.mark.parametrize("max_memory", [2**20, 2**29])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_collapsed_sets_get_the_worst_ranks(max_memory, dtype):
    one, other = random_sets(2, 4, 512, dtype)
    owners = np.arange(203) % 101
    sets = one.expand(101, 4, 512), other.expand(203, 4, 512)
    found = ranks(*sets, owners, max_memory=max_memory)
    own = np.bincount(owners)
    assert found.image_to_text.tolist() == (203 - own + 1).tolist()
    assert (found.text_to_image == 101).all()


@pytest.mark.parametrize("max_memory", [2**20, 2**29])
def test_copies_tie_whatever_rounding_does(max_memory):
    """Products round the same pair differently in different places, in float64 more often."""
    images = random_sets(60, 2, 256, torch.float64)
    texts = random_sets(60, 2, 256, torch.float64, seed=1)
    owners = np.arange(120)
    for kind in ("mil", "chamfer", "smooth_chamfer", MatchProbability()):
        once = ranks(images, texts, owners[:60], kind, max_memory=max_memory)
        copied = images.repeat(2, 1, 1), texts.repeat(2, 1, 1)
        twice = ranks(*copied, owners, kind, max_memory=max_memory)
        for a, b in (
            (once.image_to_text, twice.image_to_text),
            (once.text_to_image, twice.text_to_image),
        ):
            # Everything stands there twice: what was better, what ties, and the match itself.
            assert b.tolist() == (2 * a).tolist() * 2


def test_identical_sets_with_other_scores_are_no_ties():
    sets = random_sets(1, 1, 8).expand(3, 1, 8)
    found = ranks(sets, sets, range(3), lambda a, b: torch.eye(3))
    assert found.image_to_text.tolist() == found.text_to_image.tolist() == [1, 1, 1]


@pytest.mark.parametrize("kind", ["smooth_chamfer", "chamfer", "mil"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_many_blocks_equal_one(kind, dtype):
    """The smallest memory bound, captions out of order, compared with the whole matrix."""
    owners = uneven_owners(300, 500, seed=3)
    ours, theirs = random_sets(300, 4, 16, dtype), random_sets(len(owners), 4, 16, dtype, seed=1)
    blocks = ranks(ours, theirs, owners, kind, max_memory=2**20)
    whole = ranks(ours, theirs, owners, kind)
    # Other blocks, other rounding: a rank may move by one where two scores are as good as equal.
    for a, b in zip(
        (blocks.image_to_text, blocks.text_to_image),
        (whole.image_to_text, whole.text_to_image),
        strict=True,
    ):
        assert np.abs(a - b).max() <= (30 if dtype is torch.bfloat16 else 1)
        assert dtype is not torch.float64 or np.array_equal(a, b)


def test_options_reach_the_similarity():
    owners = uneven_owners(30, 60, seed=0)
    ours, theirs = random_sets(30, 4, 8), random_sets(90, 4, 8, seed=1)
    by_name = ranks(ours, theirs, owners, alpha=2.0)
    by_hand = ranks(ours, theirs, owners, lambda a, b: smooth_chamfer(a, b, alpha=2.0))
    assert by_name.text_to_image.tolist() == by_hand.text_to_image.tolist()
    assert by_name.text_to_image.tolist() != ranks(ours, theirs, owners).text_to_image.tolist()


def test_ensemble_averages_similarities():
    owners = uneven_owners(20, 40, seed=0)
    first = Member(random_sets(20, 4, 8, torch.float64), random_sets(60, 4, 8, torch.float64, 1))
    second = Member(
        random_sets(20, 2, 6, torch.float64, 2),
        random_sets(60, 3, 6, torch.float64, 3),
        "smooth_chamfer",
        {"alpha": 4.0},
    )
    scores = similarity_matrix(first.images, first.texts)
    scores = (scores + similarity_matrix(second.images, second.texts, alpha=4.0)) / 2
    found = ensemble_ranks([first, second], owners)
    assert (found.image_to_text.tolist(), found.text_to_image.tolist()) == naive_ranks(
        scores, owners
    )
    alone = ensemble_ranks([first], owners)
    twice = ensemble_ranks([first, first], owners)
    assert alone.text_to_image.tolist() == twice.text_to_image.tolist()


def test_a_similarity_may_return_what_it_keeps():
    """Ranking does not write into scores that belong to the caller."""
    ours, theirs = random_sets(5, 1, 8), random_sets(5, 1, 8, seed=1)
    scores = similarity_matrix(ours, theirs)
    before = scores.clone()
    ranks(ours, theirs, range(5), lambda a, b: scores)
    assert torch.equal(scores, before)


def test_median_is_the_floor_and_ranks_start_at_one():
    assert Recalls.of(np.array([1, 2])).median_rank == 1
    assert Recalls.of(np.array([1, 1, 1])) == Recalls(100, 100, 100, 1, 1)
    assert Recalls.mean([Recalls(0, 0, 0, 1, 2), Recalls(100, 100, 100, 2, 4)]) == Recalls(
        50, 50, 50, 1.5, 3
    )


ours, theirs = random_sets(3, 4, 8), random_sets(6, 2, 8)
good = [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("images", "texts", "owners", "error", "says"),
    [
        (
            ours,
            theirs,
            [0, 0, 1, 1, 2, 3],
            InputError,
            "text 5 belongs to image 3, but",
        ),
        (ours, theirs, [0, 0, 1, 1, 2, -1], InputError, "image -1"),
        (ours, theirs, [0, 0, 1, 1, 1, 1], InputError, "1 images have no text: 2"),
        (ours, theirs, good[:5], ShapeError, r"shape \(5,\) for 6 texts"),
        (ours, theirs, [good], ShapeError, r"\(1, 6\)"),
        (ours, theirs, np.array(good) * 1.0, InputError, "float64"),
        (ours, random_sets(6, 2, 7), good, ShapeError, "8 wide and texts 7"),
        (ours[0], theirs, [0, 0, 1, 1, 2, 3], ShapeError, r"\(4, 8\)"),
        (ours * 2, theirs, good, InputError, "norm 2"),
        (ours[:0], theirs, good, InputError, "0 images and 6 texts"),
    ],
)
def test_bad_input_is_named(images, texts, owners, error, says):
    with pytest.raises(error, match=says):
        ranks(images, texts, owners)


def test_bad_similarities_are_named():
    with pytest.raises(OptionError, match="'chamfr'; choose one of"):
        ranks(ours, theirs, good, "chamfr")
    with pytest.raises(ShapeError, match=r"scores of shape \(6, 3\) for 3 images and 6 texts"):
        ranks(ours, theirs, good, lambda a, b: torch.zeros(len(b), len(a)))
    with pytest.raises(InputError, match="text 0 scores nan with its own image"):
        ranks(ours, theirs, good, lambda a, b: torch.full((len(a), len(b)), torch.nan))
    with pytest.raises(InputError, match="no ranks"):
        Recalls.of(np.array([], dtype=np.int64))


def test_a_foreign_score_that_is_no_number_counts_against():
    scores = torch.eye(3)
    scores[0, 1] = torch.nan
    found = ranks(ours, theirs[:3], [0, 1, 2], lambda a, b: scores)
    assert found.image_to_text.tolist() == [2, 1, 1]
    assert found.text_to_image.tolist() == [1, 2, 1]


def test_members_have_to_fit_each_other():
    with pytest.raises(ShapeError, match="member 1 of the ensemble has 3 images and 5 texts"):
        ensemble_ranks([Member(ours, theirs), Member(ours, theirs[:5])], good)
    with pytest.raises(InputError, match="at least one member"):
        ensemble_ranks([], good)
