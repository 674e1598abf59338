import pytest
import torch

from diverset.errors import ShapeError
from diverset.features import ConvolutionalFeatures, sine_positions_2d
from diverset.types import Maps


def test_a_map_gives_projected_cells_their_mean_and_2d_positions():
    module = ConvolutionalFeatures(8, input_width=5).eval()
    maps = torch.randn(2, 5, 3, 4)
    found = module(maps)
    cell = module.fc(maps[1, :, 2, 1])
    torch.testing.assert_close(found.local[1, 2 * 4 + 1], cell)
    torch.testing.assert_close(found.pooled, found.local.mean(dim=1))
    torch.testing.assert_close(found.positions[0], sine_positions_2d(3, 4, 8))
    assert found.mask.shape == (2, 12) and found.mask.all()


def test_position_codes_can_be_scaled():
    module = ConvolutionalFeatures(8, input_width=5, position_scale=4.0)
    positions = module(torch.randn(1, 5, 3, 4)).positions[0]
    codes = sine_positions_2d(3, 4, 8)
    torch.testing.assert_close(positions.mean(dim=0), codes.mean(dim=0))
    torch.testing.assert_close(positions[5] - positions[2], 4 * (codes[5] - codes[2]))


def test_masked_cells_do_not_enter_the_mean():
    module = ConvolutionalFeatures(8, input_width=5)
    maps = torch.randn(1, 5, 2, 2)
    mask = torch.tensor([[True, False, True, False]])
    found = module(Maps(maps, mask))
    torch.testing.assert_close(found.pooled, found.local[:, [0, 2]].mean(dim=1))
    assert torch.equal(found.mask, mask)


def test_maps_of_another_width_are_rejected():
    with pytest.raises(ShapeError, match=r"\(1, 4, 2, 2\).*5"):
        ConvolutionalFeatures(8, 5)(torch.randn(1, 4, 2, 2))


def test_a_grid_averages_the_cells_of_the_map():
    module = ConvolutionalFeatures(8, input_width=5, grid=2).eval()
    maps = torch.randn(3, 5, 6, 4)
    means = maps.unflatten(3, (2, 2)).unflatten(2, (2, 3)).mean(dim=(3, 5))
    expected = ConvolutionalFeatures(8, input_width=5).eval()
    expected.load_state_dict(module.state_dict())
    torch.testing.assert_close(module(maps).local, expected(means).local)
