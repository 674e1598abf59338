from dataclasses import replace

import pytest
import torch

from diverset.errors import OptionError
from diverset.reproduce.encoded_split import encode_run
from diverset.reproduce.run_studies import run_studies
from diverset.reproduce.studies.attention import OURS, attention_maps, nearest_captions, overlap
from diverset.reproduce.variants import both_sets, with_changes

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


def test_every_slot_and_iteration_of_the_given_images_is_drawn(experiment, read_page):
    experiment = replace(experiment, images=(0, 3))
    assert run_studies("attention", experiment) == 0
    text, numbers = read_page(experiment, "attention")
    assert len(numbers["nearest"]) == 2 * 4 and len(numbers["overlap_by_iteration"]) == 2
    assert all(nearest["caption"] in text for nearest in numbers["nearest"])
    assert (experiment.out / "attention-0.png").exists() and "](attention-3.png)" in text


def test_an_image_outside_the_split_is_rejected(experiment):
    with pytest.raises(OptionError, match=r"images is \[6\]; choose from 0 to 5"):
        run_studies("attention", replace(experiment, images=(6,)))


def test_sets_without_attention_are_rejected(experiment):
    pooled = with_changes(experiment.recipe, both_sets(kind="pooled", size=1))
    with pytest.raises(OptionError, match="attention is drawn over convolution maps"):
        run_studies("attention", replace(experiment, recipe=pooled))


def test_the_slots_of_a_cell_sum_to_one_and_matches_are_right(experiment):
    run_studies("attention", experiment)
    encoded = encode_run(experiment, experiment.run_for(OURS, 0))
    maps = attention_maps(encoded, [0, 1])
    assert maps.shape[:3] == (2, 2, 4)
    torch.testing.assert_close(maps.sum(dim=2), torch.ones_like(maps[:, :, 0]))
    own_captions = encoded.split.dataset.captions_of(1)
    for nearest in nearest_captions(encoded, 1):
        assert nearest.matching == (nearest.caption in own_captions)


def test_overlap_is_one_for_equal_and_zero_for_disjoint_maps():
    assert overlap(torch.ones(1, 1, 3, 5)) == pytest.approx([1.0])
    assert overlap(torch.eye(3)[None, None]) == pytest.approx([0.0])
