import pytest
import torch
from support import random_sets

from diverset.errors import OptionError, ShapeError
from diverset.evaluation import (
    evaluate_each_element,
    evaluate_elements,
    evaluate_sets,
    select_elements,
)

images, texts = random_sets(12, 3, 8), random_sets(24, 2, 8, seed=1)
owners = [place // 2 for place in range(24)]


def test_all_elements_are_the_set():
    chosen = evaluate_elements(images, texts, owners, image_elements=[0, 1, 2])
    whole = evaluate_sets(images, texts, owners)
    assert chosen.image_to_text == whole.image_to_text and chosen.health == whole.health
    assert chosen.extras == {"image elements": "0, 1, 2", "text elements": "all"}


def test_subsets_are_evaluated_alone():
    chosen = evaluate_elements(
        images, texts, owners, image_elements=[2, 0], text_elements=1, similarity="mil"
    )
    alone = evaluate_sets(images[:, [2, 0]], texts[:, [1]], owners, "mil")
    assert chosen.text_to_image == alone.text_to_image
    assert (chosen.health.images.elements, chosen.health.texts.elements) == (2, 1)


@pytest.mark.parametrize(("side", "count"), [("images", 3), ("texts", 2), ("both", 6)])
def test_one_report_an_element(side, count):
    found = evaluate_each_element(images, texts, owners, side, health=False)
    assert len(found) == len({str(report.extras) for report in found}) == count


def test_order_of_elements_is_kept():
    assert torch.equal(select_elements(images, [2, 0])[:, 0], images[:, 2])
    assert select_elements(images, None) is images


def test_bad_choices_are_named():
    for wrong in ([3], [-1], [], [1, 1]):
        with pytest.raises(OptionError, match="choose different ones from 0 to 2"):
            select_elements(images, wrong)
    with pytest.raises(ShapeError, match=r"\(3, 8\)"):
        select_elements(images[0], [0])
    with pytest.raises(OptionError, match="side is 'left'"):
        evaluate_each_element(images, texts, owners, "left")
