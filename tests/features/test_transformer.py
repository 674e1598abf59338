import pytest
import torch

from diverset.errors import ShapeError
from diverset.features import TransformerFeatures
from diverset.types import Padded


def test_token_states_are_projected_and_max_pooled():
    module = TransformerFeatures(8, input_width=5).eval()
    states = [torch.randn(4, 5), torch.randn(2, 5)]
    found = module(Padded.of(states))
    for row, tokens in enumerate(states):
        expected = module.fc(tokens)
        torch.testing.assert_close(found.local[row, : len(tokens)], expected)
        torch.testing.assert_close(found.pooled[row], expected.amax(dim=0))


def test_states_of_another_width_are_rejected():
    with pytest.raises(ShapeError, match="768"):
        TransformerFeatures(8)(Padded.of([torch.randn(3, 7)]))
