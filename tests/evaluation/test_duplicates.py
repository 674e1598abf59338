import torch
from support import random_sets

from diverset.evaluation.duplicates import CHUNK, duplicate_groups


def test_duplicates_are_groups_across_chunks():
    sets = random_sets(CHUNK + 5, 2, 4)
    assert duplicate_groups([sets]) is None
    sets[CHUNK + 2] = sets[1]
    groups = duplicate_groups([sets])
    assert groups[CHUNK + 2] == groups[1] and len(groups.unique()) == CHUNK + 4


def test_items_are_duplicates_only_if_equal_in_every_member():
    ones = random_sets(1, 2, 4).expand(3, 2, 4)
    others = random_sets(2, 1, 3, torch.bfloat16)[[0, 1, 0]]
    assert duplicate_groups([ones, others]).tolist() == [0, 1, 0]
    assert duplicate_groups([ones, random_sets(3, 1, 3)]) is None
