import pytest
import torch

from diverset.errors import OptionError
from diverset.runtime.autocast import autocast, autocast_dtype, fastest_precision


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_products_are_computed_in_the_named_precision(precision):
    x = torch.ones(2, 2)
    with autocast("cpu", precision):
        assert (x @ x).dtype == getattr(torch, precision)
        assert autocast_dtype(x) == getattr(torch, precision)
    assert autocast_dtype(x) == torch.float32


def test_unknown_precision_is_rejected_by_name():
    with pytest.raises(OptionError, match="precision is 'bf16'; choose one of: float32, bfloat16"):
        autocast("cpu", "bf16")


@pytest.mark.parametrize(("has_bfloat16", "expected"), [(True, "bfloat16"), (False, "float32")])
def test_bfloat16_is_fastest_only_where_the_cpu_has_it(monkeypatch, has_bfloat16, expected):
    monkeypatch.setattr("diverset.runtime.autocast.cpu_has_bfloat16", lambda: has_bfloat16)
    assert fastest_precision() == expected
