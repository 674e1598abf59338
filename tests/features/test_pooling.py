import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diverset.errors import OptionError
from diverset.features.pooling import POOLS, make_pool


@pytest.mark.parametrize("name", POOLS)
@given(st.integers(1, 6), st.integers(0, 5), st.integers(0, 999))
def test_pools_ignore_padding(name, length, padding, seed):
    torch.manual_seed(seed)
    pool = make_pool(name)
    local = torch.randn(1, length, 4)
    padded = torch.cat([local, 100 * torch.randn(1, padding, 4)], dim=1)
    mask = torch.arange(length + padding)[None] < length
    torch.testing.assert_close(pool(padded, mask), pool(local, mask[:, :length]))


def test_max_and_average_leave_padding_out():
    local = torch.tensor([[[1.0, -5.0], [3.0, -1.0], [9.0, 9.0]]])
    mask = torch.tensor([[True, True, False]])
    assert make_pool("max")(local, mask).tolist() == [[3.0, -1.0]]
    assert make_pool("average")(local, mask).tolist() == [[2.0, -3.0]]


def test_the_weights_of_gpo_sum_to_one_and_ignore_the_order():
    pool = make_pool("gpo")
    constant = torch.full((2, 5, 3), 7.0)
    mask = torch.arange(5) < torch.tensor([[5], [2]])
    torch.testing.assert_close(pool(constant, mask), torch.full((2, 3), 7.0))
    local = torch.randn(1, 5, 3)
    shuffled = local[:, torch.randperm(5)]
    torch.testing.assert_close(pool(local, mask[:1]), pool(shuffled, mask[:1]))


def test_gpo_is_its_formula():
    pool = make_pool("gpo")
    local, mask = torch.randn(1, 4, 3), torch.ones(1, 4, dtype=torch.bool)
    weights = pool._weights(mask)[0]
    expected = [
        sum(
            weights[rank] * value for rank, value in enumerate(local[0, :, c].sort().values.flip(0))
        )
        for c in range(3)
    ]
    torch.testing.assert_close(pool(local, mask)[0], torch.stack(expected))


def test_an_unknown_pool_is_rejected_by_name():
    with pytest.raises(OptionError, match="pooling is 'sum'; choose one of: max, average, gpo"):
        make_pool("sum")
