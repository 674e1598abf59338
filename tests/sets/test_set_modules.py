"""Properties of every set module, and the formulas of those of the baselines."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diverset.sets import GaussianSets, PieNet, PooledSet, SlotSets, TransformerSets
from diverset.types import Features

MODULES = {
    "slots": lambda: SlotSets(8, 6, inner_width=16),
    "pie_net": lambda: PieNet(8, 6, size=3),
    "transformer": lambda: TransformerSets(8, 6, heads=2),
    "pooled": lambda: PooledSet(),
    "gaussian": lambda: GaussianSets(8, 6),
}


def batch(length=5, padding=0):
    mask = torch.ones(2, length + padding, dtype=torch.bool)
    mask[:, length:] = False
    return Features(torch.randn(2, length + padding, 6), mask, torch.randn(2, 8))


@pytest.mark.parametrize("name", MODULES)
def test_elements_have_unit_length(name):
    module = MODULES[name]()
    found = module(batch())
    assert found.elements.shape == (2, module.size, 8)
    torch.testing.assert_close(found.elements.norm(dim=-1), torch.ones(2, module.size))


@pytest.mark.parametrize("name", MODULES)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 999))
def test_padding_does_not_change_a_set(name, length, padding, seed):
    torch.manual_seed(seed)
    module = MODULES[name]().eval()
    padded = batch(length, padding)
    alone = Features(padded.local[:, :length], padded.mask[:, :length], padded.pooled)
    found, expected = module(padded, True), module(alone, True)
    torch.testing.assert_close(found.elements, expected.elements, atol=1e-6, rtol=0)
    for longer, shorter in zip(found.attention, expected.attention, strict=True):
        torch.testing.assert_close(longer[..., :length], shorter)
        assert (longer[..., length:] == 0).all()


def test_pie_net_is_its_formula():
    module, features = PieNet(8, 6, size=3).eval(), batch(4)
    w1, w2 = module.attention.hidden.weight, module.attention.scores.weight
    for sample in range(2):
        x = features.local[sample]
        scores = torch.tanh(x @ w1.T) @ w2.T
        for k in range(3):
            weights = scores[:, k].softmax(dim=0)
            attended = sum(weights[n] * x[n] for n in range(4))
            residual = torch.sigmoid(module.fc.weight @ attended + module.fc.bias)
            element = module.norm(features.pooled[sample] + residual)
            element = element / element.norm()
            torch.testing.assert_close(module(features).elements[sample, k], element)
    assert w1.shape == (3, 6) and module.attention.hidden.bias is None


def test_the_attention_of_the_transformer_sums_to_one_over_inputs():
    found = TransformerSets(8, 6, heads=2).eval()(batch(5, 2), with_attention=True)
    assert len(found.attention) == 4
    for attention in found.attention:
        assert attention.shape == (2, 2, 4, 7)
        torch.testing.assert_close(attention.sum(dim=-1), torch.ones(2, 2, 4))


def test_gaussian_samples_follow_their_distribution():
    torch.manual_seed(0)
    module = GaussianSets(8, 6, size=4000)
    with torch.no_grad():
        gaussian = module(batch()).gaussian
    mean, sigma = gaussian.samples.mean(dim=1), gaussian.samples.std(dim=1)
    error = gaussian.log_sigma.exp() / math.sqrt(4000)
    assert ((mean - gaussian.mean).abs() < 5 * error).all()
    torch.testing.assert_close(sigma, gaussian.log_sigma.exp(), rtol=0.08, atol=0)
    torch.testing.assert_close(gaussian.mean.norm(dim=-1), torch.ones(2))


def test_gaussian_sets_are_random_in_training_and_fixed_in_evaluation():
    module, features = GaussianSets(8, 6), batch()
    assert not torch.equal(module(features).elements, module(features).elements)
    module.eval()
    module.mean.dropout.p = 0.0
    assert torch.equal(module(features).elements, module(features).elements)
