import pytest
import torch
from torch.nn import functional as F

from diverset.cross_attention.linear import linear


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("shape", [(5, 16), (3, 4, 16), (2, 3, 4, 16)])
def test_values_and_gradients_equal_those_of_torch(shape, with_bias, dtype):
    torch.manual_seed(0)
    inputs = torch.randn(shape, dtype=dtype)
    weight = torch.randn(16, 7, dtype=dtype).T  # any strides
    bias = torch.randn(7, dtype=dtype) if with_bias else None
    results = []
    for function in (linear, F.linear):
        leaves = [t.clone().requires_grad_() for t in (inputs, weight, bias) if t is not None]
        output = function(*leaves)
        results.append((output, *torch.autograd.grad(output.sin().sum(), leaves)))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected)


def test_only_the_needed_gradients_are_computed():
    inputs, weight = torch.randn(3, 8, requires_grad=True), torch.randn(4, 8)
    linear(inputs, weight).sum().backward()
    torch.testing.assert_close(inputs.grad, weight.sum(dim=0).expand(3, -1))
