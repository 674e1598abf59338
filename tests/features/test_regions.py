import pytest
import torch
from support import load_fixture

from diverset.errors import OptionError, ShapeError
from diverset.features import RegionFeatures
from diverset.types import Padded


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


def test_batch_statistics_equal_the_released_code_without_padding():
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


def test_batch_statistics_ignore_padding():
    torch.manual_seed(0)
    regions = [torch.randn(n, 12) for n in (5, 2, 4)]
    padded, loose = RegionFeatures(8, 12), RegionFeatures(8, 12)
    loose.load_state_dict(padded.state_dict())
    padded(Padded.of(regions))
    loose(Padded(torch.cat(regions)[:, None], torch.ones(11, 1, dtype=torch.bool)))
    torch.testing.assert_close(padded.mlp[1].running_mean, loose.mlp[1].running_mean)
    torch.testing.assert_close(padded.mlp[1].running_var, loose.mlp[1].running_var)
    assert padded.mlp[1].num_batches_tracked == 1


def test_the_mlp_of_vse_infinity_reads_the_input():
    module = RegionFeatures(8, 12, mlp_reads="input").eval()
    x = torch.randn(3, 12)
    expected = module.mlp(x) + module.fc(x)
    found = module(Padded.of([x]))
    torch.testing.assert_close(found.local[0], expected)
    torch.testing.assert_close(found.pooled[0], expected.amax(dim=0))


def test_regions_of_another_width_are_rejected():
    with pytest.raises(ShapeError, match=r"\(2, 3, 7\).*12"):
        RegionFeatures(8, 12)(Padded.of([torch.randn(3, 7)] * 2))
    with pytest.raises(OptionError, match="mlp_reads is 'both'"):
        RegionFeatures(8, mlp_reads="both")
