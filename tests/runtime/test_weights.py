import pytest
import torch
from torch import nn

from diverset.errors import CheckpointError
from diverset.runtime.weights import load_strictly, weight_hash


def test_hash_depends_on_weights_and_settings_only():
    torch.manual_seed(0)
    layer = nn.Linear(2, 3)
    first = weight_hash(layer.state_dict(), "a")
    assert len(first) == 16 and weight_hash(layer.state_dict(), "a") == first != weight_hash(
        layer.state_dict(), "b"
    )
    layer.bias.data[0] += 1
    assert weight_hash(layer.state_dict(), "a") != first


def test_loading_names_missing_and_unexpected_keys():
    tensors = {"weight": torch.zeros(3, 2), "scale": torch.zeros(3)}
    with pytest.raises(CheckpointError, match="missing keys 'bias'; unexpected keys 'scale'; "):
        load_strictly(nn.Linear(2, 3), tensors, "a.pt")


def test_loading_rejects_another_shape():
    tensors = {"weight": torch.zeros(2, 3), "bias": torch.zeros(3)}
    with pytest.raises(CheckpointError, match=r"weight in a.pt has shape \(2, 3\), the model has"):
        load_strictly(nn.Linear(2, 3), tensors, "a.pt")
