import torch
from support import random_sets

from diverset.evaluation.duplicates import STEP, groups_of_equals


def test_copies_are_found_across_steps():
    sets = random_sets(STEP + 5, 2, 4)
    assert groups_of_equals([sets]) is None
    sets[STEP + 2] = sets[1]
    found = groups_of_equals([sets])
    assert found[STEP + 2] == found[1] and len(found.unique()) == STEP + 4


def test_copies_have_to_be_copies_for_every_member():
    ones = random_sets(1, 2, 4).expand(3, 2, 4)
    others = random_sets(2, 1, 3, torch.bfloat16)[[0, 1, 0]]
    assert groups_of_equals([ones, others]).tolist() == [0, 1, 0]
    assert groups_of_equals([ones, random_sets(3, 1, 3)]) is None
