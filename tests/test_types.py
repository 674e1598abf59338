import pytest
import torch

from diverset.errors import InputError, ShapeError
from diverset.types import Padded, can_inspect


def test_sequences_are_padded_on_the_right_and_masked():
    batch = Padded.of([torch.tensor([4, 5, 6]), torch.tensor([7])])
    assert batch.values.tolist() == [[4, 5, 6], [7, 0, 0]]
    assert batch.mask.tolist() == [[True, True, True], [True, False, False]]
    assert len(batch) == 2


@pytest.mark.parametrize(
    ("values", "mask", "error", "message"),
    [
        (torch.ones(2, 3), torch.ones(2, 3), InputError, "the mask holds torch.float32"),
        (torch.ones(2, 3), torch.ones(2, 2).bool(), ShapeError, r"mask \(2, 2\) disagree"),
        (torch.ones(2, 1), torch.tensor([[True], [False]]), InputError, "sample 1 of the batch"),
    ],
)
def test_an_invalid_mask_is_rejected(values, mask, error, message):
    with pytest.raises(error, match=message):
        Padded(values, mask)


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        ([2], ShapeError, r"\(1,\) lengths for a batch of 2"),
        ([2, 4], ShapeError, "a length of 4 in a batch padded to 3"),
        ([2.0, 1.0], InputError, "lengths hold torch.float32"),
        ([2, 0], InputError, "sample 1 of the batch has no inputs"),
    ],
)
def test_invalid_lengths_are_rejected(lengths, error, message):
    with pytest.raises(error, match=message):
        Padded.from_lengths(torch.ones(2, 3), lengths)


def test_an_empty_batch_is_rejected():
    with pytest.raises(InputError, match="at least one sample"):
        Padded.of([])


def test_masks_on_an_accelerator_are_not_read():
    """Reading them would synchronise the device in every step; a meta tensor has no values."""
    batch = Padded(torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool)).to("meta")
    assert batch.mask.device.type == "meta" and not can_inspect(batch.mask)
