import pytest
import torch

from diverset.features.gru import Gru


@pytest.mark.parametrize("bidirectional", [True, False])
def test_final_states_and_gradients_equal_those_of_torch(bidirectional):
    ours = Gru(4, 6, batch_first=True, bidirectional=bidirectional).double()
    theirs = torch.nn.GRU(4, 6, batch_first=True, bidirectional=bidirectional).double()
    theirs.load_state_dict(ours.state_dict())
    words = torch.randn(5, 7, 4, dtype=torch.float64)
    lengths = torch.tensor([3, 7, 1, 7, 4])
    weights = torch.randn(2 if bidirectional else 1, 5, 6, dtype=torch.float64)
    gradients = []
    for module in (ours, theirs):
        inputs = words.clone().requires_grad_()
        packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, lengths, True, False)
        final = ours.final_states(packed) if module is ours else theirs(packed)[1]
        (final * weights).sum().backward()
        gradients.append([final.detach(), inputs.grad, *(p.grad for p in module.parameters())])
    for mine, other in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-12, rtol=0)
