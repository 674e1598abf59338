from dataclasses import replace

import numpy as np
import pytest
from support import FIVE_EACH, KINDS, load_fixture, random_sets

from diverset.errors import OptionError
from diverset.evaluation import PROTOCOLS, Member, Protocol, evaluate_members, ranks

TWENTIES = Protocol("folds of 20", fold_size=20)


@pytest.mark.parametrize("kind", KINDS)
def test_mean_over_five_folds_equals_released_code(kind):
    numbers = load_fixture("evaluation")
    member = Member(numbers["img"], numbers["txt"], KINDS[kind])
    report = evaluate_members([member], FIVE_EACH, TWENTIES)
    row = []
    for recalls in (report.image_to_text, report.text_to_image):
        # The released code divides ranks by the number of captions of all folds.
        row += [recalls.r1, recalls.r5, recalls.r10, recalls.median_rank, recalls.median_rank / 500]
        row += [recalls.mean_rank, recalls.mean_rank / 500]
    row += [report.image_to_text.total / 3, report.text_to_image.total / 3]
    row += [report.rsum]
    assert row == pytest.approx(numbers[f"{kind}.fold_mean17"].tolist(), rel=1e-12)
    whole = evaluate_members([member], FIVE_EACH)
    assert whole.rsum == pytest.approx(numbers[f"{kind}.rsum"].item(), rel=1e-12)


def test_ranks_of_folds_keep_the_order_of_the_queries():
    image_index = np.random.default_rng(0).permutation(np.repeat(np.arange(6), 2))
    images, texts = random_sets(6, 2, 8), random_sets(12, 2, 8, seed=1)
    report = evaluate_members(
        [Member(images, texts)], image_index, Protocol("halves", fold_size=3)
    ).ranks
    for part in (range(3), range(3, 6)):
        captions = np.flatnonzero(np.isin(image_index, part))
        alone = ranks(
            images[part.start : part.stop], texts[captions], image_index[captions] - part[0]
        )
        assert report.image_to_text[part.start : part.stop].tolist() == alone.image_to_text.tolist()
        assert report.text_to_image[captions].tolist() == alone.text_to_image.tolist()


def test_images_after_the_last_whole_fold_are_left_out():
    image_index = np.random.default_rng(0).permutation(np.repeat(np.arange(8), 2))
    images, texts = random_sets(8, 2, 8), random_sets(16, 2, 8, seed=1)
    thirds = Protocol("thirds", fold_size=3)
    report = evaluate_members([Member(images, texts)], image_index, thirds, health=True)
    kept = np.flatnonzero(image_index < 6)
    member = Member(images[:6], texts[kept])
    expected = evaluate_members([member], image_index[kept], thirds, health=True)
    assert report.extras == {"images left out after the last whole fold": 2}
    assert replace(report, extras={}) == expected
    assert report.ranks.text_to_image.tolist() == expected.ranks.text_to_image.tolist()
    assert (report.n_images, report.n_captions) == (6, 12)
    assert report.protocol == "thirds (mean of 2 folds)"


def test_part_of_coco_gives_fewer_folds_of_1000():
    protocol = PROTOCOLS["coco_1k"]
    assert protocol.folds(4407) == [slice(n, n + 1000) for n in range(0, 4000, 1000)]
    assert len(protocol.folds(5000)) == 5
    assert protocol.describe(5) == "COCO 1K (mean of 5 folds)"


def test_unsuitable_protocols_are_rejected():
    member = Member(random_sets(4, 2, 8), random_sets(4, 2, 8))
    with pytest.raises(OptionError, match="'coco_5k'; choose one of: full, coco_1k"):
        evaluate_members([member], range(4), "coco_5k")
    with pytest.raises(OptionError, match="takes folds of 1000 images, but there are 4 images"):
        evaluate_members([member], range(4), "coco_1k")
    with pytest.raises(OptionError, match="takes 5 folds of 2 images, but there are 11"):
        Protocol("five", fold_size=2, max_folds=5).folds(11)
    for size in (0, -1, 101):
        with pytest.raises(OptionError, match=f"folds of {size} images, but there are 100"):
            Protocol("folds", fold_size=size).folds(100)
