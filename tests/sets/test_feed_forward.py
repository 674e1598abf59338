import pytest
import torch
from torch import nn
from torch.nn import functional as F

from diverset.sets import feed_forward
from diverset.sets.feed_forward import FeedForward


def gradients(output, module, rows):
    return torch.autograd.grad(output.square().sum(), [rows, *module.parameters()])


def test_the_mlp_and_its_gradients_are_those_of_autograd():
    torch.manual_seed(0)
    module = FeedForward(6, 4, dropout=0.0).double()
    rows = torch.randn(3, 5, 6, dtype=torch.float64, requires_grad=True)
    plain = nn.Sequential(*module)
    torch.testing.assert_close(module(rows), plain(rows))
    for found, expected in zip(
        gradients(module(rows), module, rows), gradients(plain(rows), plain, rows), strict=True
    ):
        torch.testing.assert_close(found, expected)


def test_dropout_uses_one_mask_forward_and_backward(monkeypatch):
    """Against autograd with the same mask."""
    torch.manual_seed(0)
    module = FeedForward(6, 4, dropout=0.4).double()
    rows = torch.randn(50, 6, dtype=torch.float64, requires_grad=True)
    masks = []
    original = feed_forward._dropped

    def remembered(hidden, dropped, scale):
        masks.append(dropped)
        return original(hidden, dropped, scale)

    monkeypatch.setattr(feed_forward, "_dropped", remembered)
    output = module(rows)
    found = gradients(output, module, rows)
    dropped = masks[0]
    assert len(masks) == 3 and all(mask is dropped or mask.equal(dropped) for mask in masks)
    assert 0.3 < dropped.double().mean() < 0.5
    norm, first, _, _, second = module
    expected = second(F.gelu(first(norm(rows))) * ~dropped / 0.6)
    torch.testing.assert_close(output, expected)
    for one, other in zip(found, gradients(expected, module, rows), strict=True):
        torch.testing.assert_close(one, other)


def test_evaluation_has_no_dropout():
    module = FeedForward(6, 4, dropout=0.9).eval()
    rows = torch.randn(3, 6)
    assert torch.equal(module(rows), module(rows))


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_under_autocast_products_are_in_bfloat16_and_gradients_in_float32(dropout):
    torch.manual_seed(0)
    module = FeedForward(16, 4, dropout)
    rows = torch.randn(8, 16, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        output = module(rows)
    assert output.dtype == torch.bfloat16
    found = gradients(output.float(), module, rows)
    assert {gradient.dtype for gradient in found} == {torch.float32}
    if not dropout:
        expected = gradients(module(rows), module, rows)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0.05 * float(other.abs().max()))
