from itertools import combinations

import pytest

from diverset.reproduce.scenes import ScenesOptions, possible_situations, sample_scene
from diverset.reproduce.scenes.vocabulary import VARIETIES


@pytest.mark.parametrize("number", range(1, 7))
def test_situations_are_inside_the_image_and_do_not_overlap(number: int) -> None:
    for seed in range(60):
        scene = sample_scene(seed, ScenesOptions(situations=number))
        assert len(scene.situations) == len(scene.boxes) == number
        assert len({(s.kind, s.colour) for s in scene.situations}) == number
        for left, top, right, bottom in scene.boxes:
            assert 0 <= left < right <= 1 and 0 <= top < bottom <= 1
        for one, two in combinations(scene.boxes, 2):
            apart_x = one[2] <= two[0] or two[2] <= one[0]
            apart_y = one[3] <= two[1] or two[3] <= one[1]
            assert apart_x or apart_y, (seed, one, two)


def test_more_variety_means_more_situations() -> None:
    sizes = [len(possible_situations(name)) for name in VARIETIES]
    assert sizes == sorted(sizes)
    for name in VARIETIES:
        possible = set(possible_situations(name))
        assert len(possible) == len(possible_situations(name))
        for seed in range(40):
            assert possible.issuperset(sample_scene(seed, ScenesOptions(variety=name)).situations)
