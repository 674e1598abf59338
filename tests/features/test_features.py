import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import load_fixture

from diverset.errors import InputError, OptionError, ShapeError
from diverset.features import (
    BiGruFeatures,
    ConvolutionalFeatures,
    RegionFeatures,
    TransformerFeatures,
    sine_positions,
    sine_positions_2d,
)
from diverset.features.gru import Gru
from diverset.types import Maps, Padded


def naive_code(place, length, channel, width):
    angle = place / (length + 1e-6) * 2 * math.pi / 10000 ** (2 * (channel // 2) / width)
    return math.sin(angle) if channel % 2 == 0 else math.cos(angle)


@given(st.integers(1, 9), st.integers(0, 4), st.integers(1, 12))
def test_1d_positions_are_their_formula_whatever_the_padding(length, padding, width):
    mask = torch.tensor([[True] * length + [False] * padding])
    codes = sine_positions(mask, width, torch.float64)[0, :length]
    expected = torch.tensor(
        [[naive_code(n + 1, length, c, width) for c in range(width)] for n in range(length)],
        dtype=torch.float64,
    )
    torch.testing.assert_close(codes, expected)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6).map(lambda half: 2 * half))
def test_2d_positions_are_y_then_x(height, width, channels):
    codes = sine_positions_2d(height, width, channels, torch.float64).view(height, width, channels)
    half = channels // 2
    for y in range(height):
        for x in range(width):
            expected = [naive_code(y + 1, height, c, half) for c in range(half)]
            expected += [naive_code(x + 1, width, c, half) for c in range(half)]
            torch.testing.assert_close(codes[y, x], torch.tensor(expected, dtype=torch.float64))


def test_odd_channels_cannot_be_halved():
    with pytest.raises(OptionError, match="7 channels"):
        sine_positions_2d(2, 2, 7)


def released_regions():
    numbers = load_fixture("encoders")
    module = RegionFeatures(dim=32, dropout=0.0)
    names = {"fc": "fc", "mlp.0": "mlp.fc1", "mlp.1": "mlp.bn.bn", "mlp.3": "mlp.fc2"}
    weights = {
        f"{ours}.{key.rsplit('.', 1)[1]}": value
        for ours, theirs in names.items()
        for key, value in numbers.items()
        if key.startswith(f"sd.img_enc.{theirs}.")
    }
    module.load_state_dict(weights)
    return module, numbers


def test_regions_equal_the_released_code():
    module, numbers = released_regions()
    regions = Padded.from_lengths(numbers["in.img"], numbers["in.img_len"])
    found = module.eval()(regions)
    expected = numbers["out.img_local"][:, :, 0]
    real = regions.mask
    torch.testing.assert_close(found.local[real], expected[real], atol=1e-5, rtol=0)
    torch.testing.assert_close(found.pooled, numbers["out.img_global"], atol=1e-5, rtol=0)
    assert (found.local[~real] == 0).all()


def test_batch_statistics_equal_the_released_code_when_nothing_is_padding():
    """Its statistics include padded rows: taken as real ones here, one update must agree.

    The released code passes twice through the stack and so updates twice by 0.1:
    after = 0.81 before + 0.19 mean, from which the mean follows.
    """
    module, numbers = released_regions()
    before = {name: buffer.clone() for name, buffer in module.mlp[1].named_buffers()}
    module.train()(Padded.from_lengths(numbers["in.img"], [9, 9, 9, 9]))
    for name, key in (("running_mean", "bn_running_mean"), ("running_var", "bn_running_var")):
        batch_value = (numbers[f"train.{key}_after"] - 0.81 * before[name]) / 0.19
        expected = 0.9 * before[name] + 0.1 * batch_value
        torch.testing.assert_close(getattr(module.mlp[1], name), expected, atol=1e-5, rtol=1e-4)


def test_statistics_never_see_padding():
    torch.manual_seed(0)
    regions = [torch.randn(n, 12) for n in (5, 2, 4)]
    padded, loose = RegionFeatures(8, 12), RegionFeatures(8, 12)
    loose.load_state_dict(padded.state_dict())
    padded(Padded.of(regions))
    loose(Padded(torch.cat(regions)[:, None], torch.ones(11, 1, dtype=torch.bool)))
    torch.testing.assert_close(padded.mlp[1].running_mean, loose.mlp[1].running_mean)
    torch.testing.assert_close(padded.mlp[1].running_var, loose.mlp[1].running_var)
    assert padded.mlp[1].num_batches_tracked == 1


def test_vse_infinity_reads_the_input():
    module = RegionFeatures(8, 12, mlp_reads="input").eval()
    x = torch.randn(3, 12)
    expected = module.mlp(x) + module.fc(x)
    found = module(Padded.of([x]))
    torch.testing.assert_close(found.local[0], expected)
    torch.testing.assert_close(found.pooled[0], expected.amax(dim=0))


def test_convolution_projects_averages_and_codes_cells():
    module = ConvolutionalFeatures(8, input_width=5).eval()
    maps = torch.randn(2, 5, 3, 4)
    found = module(maps)
    cell = module.fc(maps[1, :, 2, 1])
    torch.testing.assert_close(found.local[1, 2 * 4 + 1], cell)
    torch.testing.assert_close(found.pooled, found.local.mean(dim=1))
    torch.testing.assert_close(found.positions[0], sine_positions_2d(3, 4, 8))
    assert found.mask.shape == (2, 12) and found.mask.all()


def test_dropped_cells_take_no_part():
    module = ConvolutionalFeatures(8, input_width=5)
    maps = torch.randn(1, 5, 2, 2)
    mask = torch.tensor([[True, False, True, False]])
    found = module(Maps(maps, mask))
    torch.testing.assert_close(found.pooled, found.local[:, [0, 2]].mean(dim=1))
    assert torch.equal(found.mask, mask)


def test_bigru_equals_the_released_code():
    numbers = load_fixture("encoders")
    module = BiGruFeatures(dim=32, vocabulary_size=50, word_width=20).eval()
    weights = {"embedding.weight": numbers["sd.txt_enc.embed.weight"]}
    weights |= {
        key.replace("sd.txt_enc.rnn.", "gru."): value
        for key, value in numbers.items()
        if key.startswith("sd.txt_enc.rnn.")
    }
    module.load_state_dict(weights)
    words = Padded.from_lengths(numbers["in.txt"], numbers["in.txt_len"])
    found = module(words)
    real = words.mask
    torch.testing.assert_close(found.local[real], numbers["out.txt_local"][real])
    torch.testing.assert_close(found.pooled, numbers["out.txt_global"], atol=2e-6, rtol=0)


def test_bigru_reads_each_caption_to_its_own_end():
    module = BiGruFeatures(dim=6, vocabulary_size=9, word_width=4).eval()
    captions = [torch.tensor([1, 5, 6, 2]), torch.tensor([1, 7, 2])]
    together = module(Padded.of(captions))
    for place, caption in enumerate(captions):
        alone = module(Padded.of([caption]))
        torch.testing.assert_close(together.pooled[place], alone.pooled[0])
        torch.testing.assert_close(together.positions[place, : len(caption)], alone.positions[0])


def test_transformer_states_are_projected_and_max_pooled():
    module = TransformerFeatures(8, input_width=5).eval()
    states = [torch.randn(4, 5), torch.randn(2, 5)]
    found = module(Padded.of(states))
    for place, one in enumerate(states):
        expected = module.fc(one)
        torch.testing.assert_close(found.local[place, : len(one)], expected)
        torch.testing.assert_close(found.pooled[place], expected.amax(dim=0))


def test_word_vectors_replace_the_embedding():
    module = BiGruFeatures(dim=6, vocabulary_size=9, word_width=4)
    vectors = torch.randn(9, 4)
    module.set_words(vectors)
    assert torch.equal(module.embedding.weight, vectors)
    with pytest.raises(ShapeError, match=r"\(9, 5\)"):
        module.set_words(torch.randn(9, 5))


def test_bad_inputs_are_named():
    with pytest.raises(ShapeError, match=r"\(2, 3, 7\).*12"):
        RegionFeatures(8, 12)(Padded.of([torch.randn(3, 7)] * 2))
    with pytest.raises(ShapeError, match=r"\(1, 4, 2, 2\).*5"):
        ConvolutionalFeatures(8, 5)(torch.randn(1, 4, 2, 2))
    with pytest.raises(ShapeError, match="768"):
        TransformerFeatures(8)(Padded.of([torch.randn(3, 7)]))
    with pytest.raises(InputError, match="1 to 9, but the vocabulary has 9 words"):
        BiGruFeatures(6, 9, 4)(Padded.of([torch.tensor([1, 9, 2])]))
    with pytest.raises(ShapeError, match="float32"):
        BiGruFeatures(6, 9, 4)(Padded.of([torch.randn(3)]))
    with pytest.raises(OptionError, match="mlp_reads is 'both'"):
        RegionFeatures(8, mlp_reads="both")


@pytest.mark.parametrize("bidirectional", [True, False])
def test_our_gru_is_torchs_gru_and_so_are_its_gradients(bidirectional):
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
