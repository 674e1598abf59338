import pytest
import torch
from support import random_sets

from diverset.errors import OptionError, ShapeError
from diverset.evaluation import select_elements

sets = random_sets(12, 3, 8)


def test_elements_are_selected_in_the_given_order():
    assert torch.equal(select_elements(sets, [2, 0]), sets[:, [2, 0]])
    assert torch.equal(select_elements(sets, 1), sets[:, 1:2])
    assert select_elements(sets, None) is sets


@pytest.mark.parametrize("elements", [[3], [-1], [], [1, 1]])
def test_missing_and_repeated_elements_are_rejected(elements):
    with pytest.raises(OptionError, match=r"sets of 3; select each at most once, from 0 to 2"):
        select_elements(sets, elements)


def test_a_single_set_is_rejected():
    with pytest.raises(ShapeError, match=r"\(3, 8\)"):
        select_elements(sets[0], [0])
