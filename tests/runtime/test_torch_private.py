import torch

from diverset.runtime import torch_private
from diverset.runtime.torch_private import (
    has_fused_conv,
    has_int8_matmul,
    has_onednn_linear,
    int8_matmul,
    onednn_linear,
)


def test_int8_matmul_is_exact_where_it_is_offered():
    if has_int8_matmul():
        a = torch.randint(-127, 128, (3, 16), dtype=torch.int8)
        b = torch.randint(-127, 128, (5, 16), dtype=torch.int8)
        assert torch.equal(int8_matmul(a, b), a.int() @ b.int().T)


def test_int8_matmul_that_saturates_or_is_missing_is_not_offered():
    def saturating(a, b):
        return (a.float() @ b.float().T).clamp(-(2**15), 2**15 - 1).int()

    def missing(a, b):
        raise AttributeError("_int_mm")

    assert not has_int8_matmul(saturating) and not has_int8_matmul(missing)


def test_fused_conv_is_not_offered_where_an_operator_is_missing(monkeypatch):
    class NoOperators:
        _reorder_convolution_weight = None

    monkeypatch.setattr(torch_private.torch.ops, "mkldnn", NoOperators)
    assert not has_fused_conv.__wrapped__(torch.float32)


def test_fused_conv_is_not_offered_for_float64():
    assert not has_fused_conv(torch.float64)


def test_onednn_linear_equals_torchs_where_it_is_offered():
    inputs, weight = torch.randn(3, 5, 16), torch.randn(16, 7).T  # any strides
    if has_onednn_linear(inputs, weight):
        for bias in (None, torch.randn(7)):
            expected = torch.nn.functional.linear(inputs, weight, bias)
            torch.testing.assert_close(onednn_linear(inputs, weight, bias), expected)


def test_onednn_linear_is_not_offered_for_other_types():
    wide, single = torch.zeros(2, 2, dtype=torch.float64), torch.zeros(2, 2)
    assert not has_onednn_linear(wide, wide) and not has_onednn_linear(single, wide)
