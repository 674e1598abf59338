import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import load_fixture

from diverset.errors import OptionError
from diverset.features import sine_positions
from diverset.model.reference import SET_NAMES
from diverset.sets import SlotSets
from diverset.types import Features

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-9}


def released(name, dtype=torch.float32):
    """Our module with the released code's weights, and its inputs as features."""
    numbers = load_fixture(name)
    local = numbers["in.local"].flatten(1, -2).to(dtype)
    module = SlotSets(
        dim=32,
        input_width=local.shape[-1],
        size=int(numbers["meta.K"]),
        iterations=int(numbers["meta.T"]),
        heads=int(numbers["meta.heads"]),
        inner_width=int(numbers["meta.heads"] * numbers["meta.dim_head"]),
    )
    weights = {}
    for key, value in numbers.items():
        for theirs, ours in SET_NAMES.items():
            rest = key.removeprefix("sd.")
            if key.startswith("sd.") and (rest == theirs or rest.startswith(theirs + ".")):
                weights[ours + rest.removeprefix(theirs)] = value
    module.load_state_dict(weights)
    mask = torch.ones(local.shape[:2], dtype=torch.bool)
    positions = None
    if "out.pos_enc" in numbers:
        positions = sine_positions(mask, local.shape[-1])
        torch.testing.assert_close(positions, numbers["out.pos_enc"], atol=1e-6, rtol=0)
        positions = positions.to(dtype)
    pooled = numbers["in.global"].to(dtype)
    return module.to(dtype).eval(), Features(local, mask, pooled, positions), numbers


@pytest.mark.parametrize("name", ["slots_image", "slots_text"])
def test_unmasked_results_equal_the_released_code(name):
    module, features, numbers = released(name)
    found = module(features, with_attention=True)
    torch.testing.assert_close(found.slots, numbers["out.slots_ln_nomask"], atol=1e-5, rtol=0)
    whole = found.slots + module.global_norm(features.pooled)[:, None]
    torch.testing.assert_close(whole, numbers["out.set_nomask"], atol=1e-5, rtol=0)
    unit = torch.nn.functional.normalize(numbers["out.set_nomask"], dim=-1)
    torch.testing.assert_close(found.elements, unit, atol=2e-6, rtol=0)
    assert len(found.attention) == 4
    for t, attention in enumerate(found.attention, start=1):
        expected = numbers[f"out.attn_nomask_t{t}"]
        torch.testing.assert_close(attention, expected, atol=2e-6, rtol=0)


@pytest.mark.parametrize("name", ["slots_image", "slots_text"])
def test_float64_equals_the_released_code(name):
    module, features, numbers = released(name, torch.float64)
    found = module(features)
    whole = found.slots + module.global_norm(features.pooled)[:, None]
    torch.testing.assert_close(whole, numbers["out64.set_nomask"], atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["slots_image", "slots_text"])
def test_gradient_of_a_sample_without_padding_equals_the_released_code(name):
    """The released gradients are of a padded batch; its first sample has no padding to leak."""
    module, features, numbers = released(name, torch.float64)
    first = Features(
        features.local[:1].requires_grad_(),
        features.mask[:1],
        features.pooled[:1].requires_grad_(),
        None if features.positions is None else features.positions[:1],
    )
    whole = module(first).slots + module.global_norm(first.pooled)[:, None]
    (whole * numbers["grad.w"][:1]).sum().backward()
    expected = numbers["grad64.local"][:1].flatten(1, -2)
    torch.testing.assert_close(first.local.grad, expected, atol=1e-9, rtol=0)
    torch.testing.assert_close(first.pooled.grad, numbers["grad64.global"][:1], atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", ["slots_image", "slots_text"])
def test_the_padding_leak_is_not_reproduced(name):
    module, features, numbers = released(name)
    mask = ~numbers["in.pad_mask"]
    width = features.local.shape[-1]
    positions = None if features.positions is None else sine_positions(mask, width)
    padded = module(Features(features.local, mask, features.pooled, positions)).slots
    for sample, length in enumerate(numbers["in.lengths"].tolist()):
        own_mask = torch.ones(1, length, dtype=torch.bool)
        alone = Features(
            features.local[sample : sample + 1, :length],
            own_mask,
            features.pooled[sample : sample + 1],
            None if positions is None else sine_positions(own_mask, width),
        )
        torch.testing.assert_close(padded[sample], module(alone).slots[0], atol=2e-6, rtol=0)
    leaky = numbers["out.slots_ln_masked"]
    assert (padded[2] - leaky[2]).abs().max() > 1e-2


def small(**options):
    return SlotSets(dim=8, input_width=6, inner_width=16, **options).eval()


@given(st.integers(1, 7), st.integers(0, 6), st.sampled_from([1, 2, 4]), st.integers(0, 999))
def test_padding_does_not_change_a_set(length, padding, heads, seed):
    torch.manual_seed(seed)
    module = small(heads=heads)
    local, pooled = torch.randn(1, length, 6), torch.randn(1, 8)
    real = torch.ones(1, length, dtype=torch.bool)
    noise = torch.randn(1, padding, 6) * 100
    mask = torch.cat([real, torch.zeros(1, padding, dtype=torch.bool)], dim=1)
    alone = module(Features(local, real, pooled))
    padded = module(Features(torch.cat([local, noise], dim=1), mask, pooled), True)
    torch.testing.assert_close(padded.elements, alone.elements, atol=1e-6, rtol=0)
    assert (padded.attention[-1][..., length:] == 0).all()


@given(st.permutations(range(4)), st.integers(0, 999))
def test_permuting_the_slots_permutes_the_set(order, seed):
    torch.manual_seed(seed)
    module = small()
    features = Features(torch.randn(2, 5, 6), torch.ones(2, 5, dtype=torch.bool), torch.randn(2, 8))
    before = module(features).elements
    with torch.no_grad():
        module.slots.copy_(module.slots[list(order)])
    torch.testing.assert_close(module(features).elements, before[:, list(order)])


@given(st.permutations(range(5)), st.integers(0, 999))
def test_the_order_of_inputs_without_positions_does_not_matter(order, seed):
    torch.manual_seed(seed)
    module = small()
    local, mask, pooled = (
        torch.randn(2, 5, 6),
        torch.ones(2, 5, dtype=torch.bool),
        torch.randn(2, 8),
    )
    before = module(Features(local, mask, pooled)).elements
    after = module(Features(local[:, list(order)], mask, pooled)).elements
    torch.testing.assert_close(after, before, atol=1e-6, rtol=0)


def test_the_attention_of_all_slots_sums_to_one_for_every_input():
    features = Features(torch.randn(2, 5, 6), torch.ones(2, 5, dtype=torch.bool), torch.randn(2, 8))
    for attention in small(heads=2)(features, with_attention=True).attention:
        torch.testing.assert_close(attention.sum(dim=2), torch.ones(2, 2, 5))


@pytest.mark.parametrize(
    "options", [{"initial": "random"}, {"update": "gru"}, {"add_global": False}]
)
def test_every_weight_of_an_ablation_has_a_gradient(options):
    module = small(**options).train()
    features = Features(torch.randn(2, 5, 6), torch.ones(2, 5, dtype=torch.bool), torch.randn(2, 8))
    found = module(features)
    assert found.elements.shape == (2, 4, 8)
    (found.elements * torch.randn(2, 4, 8)).sum().backward()
    without = [name for name, p in module.named_parameters() if p.grad is None]
    assert without == []


def test_an_ablated_global_feature_has_no_effect():
    module = small(add_global=False)
    local, mask = torch.randn(2, 5, 6), torch.ones(2, 5, dtype=torch.bool)
    one = module(Features(local, mask, torch.randn(2, 8))).elements
    other = module(Features(local, mask, torch.randn(2, 8))).elements
    assert torch.equal(one, other)


def test_invalid_options_are_rejected_by_name():
    with pytest.raises(OptionError, match="inner_width is 16 and heads 3; give a multiple"):
        small(heads=3)
    with pytest.raises(OptionError, match="initial is 'zero'; choose one of: learned, random"):
        small(initial="zero")
    with pytest.raises(OptionError, match="update is 'lstm'"):
        small(update="lstm")
