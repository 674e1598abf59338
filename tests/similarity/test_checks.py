import math

import numpy as np
import pytest
import torch
from support import random_sets

from diverset.errors import InputError, ShapeError
from diverset.similarity import (
    MatchProbability,
    chamfer,
    check_image_index,
    check_sets,
    mil,
    similarity_matrix,
    smooth_chamfer,
)

SETS = random_sets(3, 4, 8)
WITH_NAN, WITH_ZERO = SETS.clone(), SETS.clone()
WITH_NAN[1, 2, 0] = math.nan
WITH_ZERO[2, 3] = 0


@pytest.mark.parametrize(
    "similarity", [smooth_chamfer, chamfer, mil, MatchProbability(), similarity_matrix]
)
@pytest.mark.parametrize(
    ("images", "texts", "error", "message"),
    [
        (SETS[0], SETS, ShapeError, r"images has shape \(4, 8\)"),
        (SETS[:, :0], SETS, ShapeError, r"images has shape \(3, 0, 8\)"),
        (SETS, random_sets(3, 4, 6), ShapeError, "images are 8 wide and texts 6"),
        (SETS, SETS[..., :6], ShapeError, "images are 8 wide and texts 6"),
        (WITH_NAN, SETS, InputError, r"element 2 of images\[1\] has norm nan"),
        (SETS, WITH_ZERO, InputError, r"element 3 of texts\[2\] has norm 0"),
        (SETS * 3, SETS, InputError, r"element 0 of images\[0\] has norm 3"),
        (SETS.long(), SETS, InputError, "images holds torch.int64"),
        (SETS, SETS.numpy(), InputError, "texts is a ndarray; give a torch tensor"),
    ],
)  # fmt: skip
def test_every_similarity_rejects_invalid_sets(similarity, images, texts, error, message):
    with pytest.raises(error, match=message):
        similarity(images, texts)


def test_values_on_an_accelerator_are_not_read():
    """Reading them would synchronise the device; a meta tensor has none to read."""
    sets = SETS.to("meta")
    check_sets(sets, sets)
    assert smooth_chamfer(sets, sets).shape == (3, 3)
    assert check_image_index(torch.zeros(3, dtype=torch.int64, device="meta"), 2, 3).shape == (3,)


@pytest.mark.parametrize(
    "image_index", [[0, 0, 1], np.array([0, 0, 1], np.uint8), torch.tensor([0, 0, 1]).byte()]
)
def test_an_image_index_may_be_a_list_an_array_or_a_tensor(image_index):
    rows = check_image_index(image_index, images=2, texts=3)
    assert rows.dtype == torch.int64 and rows.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("image_index", "error", "message"),
    [
        ([0, 1], ShapeError, r"shape \(2,\) for 3 texts"),
        ([0, 1, 2], InputError, "text 2 belongs to image 2, but there are 2 images"),
        (torch.tensor([0, -1, 1]), InputError, "text 1 belongs to image -1"),
        ([0.0, 1.0, 1.0], InputError, "image_index holds float64"),
        (["a", "b", "c"], InputError, "image_index holds <U1"),
        (torch.tensor([True, False, True]), InputError, "image_index holds torch.bool"),
        (torch.rand(3), InputError, "image_index holds torch.float32"),
    ],
)
def test_an_invalid_image_index_is_rejected(image_index, error, message):
    with pytest.raises(error, match=message):
        check_image_index(image_index, images=2, texts=3)
