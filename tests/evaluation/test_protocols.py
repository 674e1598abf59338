import numpy as np
import pytest
from support import FIVE_EACH, KINDS, load_fixture, random_sets

from diverset.errors import OptionError
from diverset.evaluation import Member, Protocol, folds, ranks, rsum, run_protocol

TWENTIES = Protocol("folds of 20", fold_size=20)


@pytest.mark.parametrize("kind", KINDS)
def test_five_folds_against_released_code(kind):
    numbers = load_fixture("evaluation")
    member = Member(numbers["img"], numbers["txt"], KINDS[kind])
    found = run_protocol([member], FIVE_EACH, TWENTIES)
    row = []
    for one in (found.image_to_text, found.text_to_image):
        # The released code divides ranks by the number of captions of all folds.
        row += [one.r1, one.r5, one.r10, one.median_rank, one.median_rank / 500]
        row += [one.mean_rank, one.mean_rank / 500]
    row += [found.image_to_text.total / 3, found.text_to_image.total / 3]
    row += [rsum(found.image_to_text, found.text_to_image)]
    assert row == pytest.approx(numbers[f"{kind}.fold_mean17"].tolist(), rel=1e-12)
    whole = run_protocol([member], FIVE_EACH)
    assert rsum(whole.image_to_text, whole.text_to_image) == pytest.approx(
        numbers[f"{kind}.rsum"].item(), rel=1e-12
    )


def test_ranks_of_folds_stand_at_their_queries():
    owners = np.random.default_rng(0).permutation(np.repeat(np.arange(6), 2))
    images, texts = random_sets(6, 2, 8), random_sets(12, 2, 8, seed=1)
    found = run_protocol([Member(images, texts)], owners, Protocol("halves", fold_size=3)).ranks
    for part in (range(3), range(3, 6)):
        captions = np.flatnonzero(np.isin(owners, part))
        alone = ranks(images[part.start : part.stop], texts[captions], owners[captions] - part[0])
        assert found.image_to_text[part.start : part.stop].tolist() == alone.image_to_text.tolist()
        assert found.text_to_image[captions].tolist() == alone.text_to_image.tolist()


def test_folds_come_out_even():
    assert folds(100, 20)[-1] == range(80, 100)
    for size in (0, -1, 30, 101):
        with pytest.raises(OptionError, match=f"fold size is {size}, which does not divide 100"):
            folds(100, size)


def test_bad_protocols_are_named():
    member = Member(random_sets(4, 2, 8), random_sets(4, 2, 8))
    with pytest.raises(OptionError, match="'coco_5k'; choose one of: full, coco_1k"):
        run_protocol([member], range(4), "coco_5k")
    with pytest.raises(OptionError, match="1000, which does not divide 4"):
        run_protocol([member], range(4), "coco_1k")
    with pytest.raises(OptionError, match="takes 5 folds of 2 images, but there are 4"):
        run_protocol([member], range(4), Protocol("five", fold_size=2, n_folds=5))
