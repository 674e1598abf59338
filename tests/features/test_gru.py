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


def test_under_autocast_states_and_gradients_are_those_of_float32_up_to_rounding():
    torch.manual_seed(0)
    module = Gru(16, 24, batch_first=True, bidirectional=True)
    words, lengths = torch.randn(9, 7, 16), torch.tensor([3, 7, 1, 7, 4, 2, 5, 6, 7])
    results = []
    for enabled in (False, True):
        module.zero_grad()
        inputs = words.clone().requires_grad_()
        packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, lengths, True, False)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            final = module.final_states(packed)
        final.square().sum().backward()
        results.append([final.detach(), inputs.grad, *(p.grad for p in module.parameters())])
    for exact, rounded in zip(*results, strict=True):
        assert rounded.dtype == torch.float32
        tolerance = 0.03 * float(exact.abs().max())
        torch.testing.assert_close(rounded, exact, atol=tolerance, rtol=0)
