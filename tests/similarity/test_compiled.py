"""The compiled kernel: equal to the formula for all shapes, precisions and instruction sets."""

import ctypes

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import random_sets

from diverset.errors import OptionError
from diverset.runtime import compiled as libraries
from diverset.runtime.compiled import FOLDER, INSTRUCTION_SETS, load_kernel
from diverset.runtime.threads import torch_threads
from diverset.similarity import blocks, log_sum_exp_smooth_chamfer, similarity_matrix
from diverset.similarity.compiled import compiled_smooth_chamfer

if load_kernel() is None:
    pytest.skip("the kernel is not built; run make kernel", allow_module_level=True)


def kernels():
    for name in INSTRUCTION_SETS:
        if (FOLDER / f"{name}.so").exists():
            kernel = ctypes.CDLL(str(FOLDER / f"{name}.so"))
            if kernel.diverset_supported():
                yield pytest.param(kernel, id=name)


def random_cosines(*shape, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.rand(*shape, generator=generator) - 1).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kernel", list(kernels()))
@given(
    st.integers(1, 9), st.integers(1, 6), st.integers(1, 6), st.integers(1, 70),
    st.floats(0.1, 11), st.integers(0, 2**16),
)  # fmt: skip
def test_the_kernel_equals_eq_7(kernel, dtype, images, k, m, texts, alpha, seed):
    cosines = random_cosines(images, k, m, texts, seed=seed, dtype=dtype)
    expected = log_sum_exp_smooth_chamfer(cosines.double(), alpha)
    scores = compiled_smooth_chamfer(cosines, alpha, kernel)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores.double(), expected, atol=1e-6 / min(alpha, 1), rtol=0)


@pytest.mark.parametrize("kernel", list(kernels()))
@pytest.mark.parametrize("value", [-1.0, 1.0])
def test_equal_cosines_of_one_are_exact_to_rounding(kernel, value):
    for elements, alpha in ((1, 64.0), (4, 16.0), (20, 0.01)):
        cosines = torch.full((1, elements, elements, 17), value)
        expected = log_sum_exp_smooth_chamfer(cosines.double(), alpha)
        scores = compiled_smooth_chamfer(cosines, alpha, kernel)
        torch.testing.assert_close(scores.double(), expected, atol=1e-6 / min(alpha, 1), rtol=1e-6)


def test_threads_do_not_change_a_bit():
    cosines = random_cosines(50, 4, 4, 100)
    with torch_threads(1):
        alone = compiled_smooth_chamfer(cosines)
    with torch_threads(3):
        assert torch.equal(compiled_smooth_chamfer(cosines), alone)


@pytest.mark.parametrize(
    ("cosines", "alpha"),
    [
        (random_cosines(2, 4, 4, 5, dtype=torch.float64), 16.0),  # in float64
        (random_cosines(2, 4, 4, 5).transpose(1, 2), 16.0),  # not contiguous
        (random_cosines(2, 4, 4, 5), 20.0),  # the product of sums could overflow
        (random_cosines(2, 2, 33, 5), 0.01),  # more elements than the kernel has memory for
        (torch.empty(2, 4, 4, 5, device="meta"), 16.0),
    ],
)
def test_other_cosines_are_left_to_torch(cosines, alpha):
    assert compiled_smooth_chamfer(cosines, alpha) is None


def test_an_invalid_alpha_is_rejected():
    with pytest.raises(OptionError, match="alpha is 0"):
        compiled_smooth_chamfer(random_cosines(2, 4, 4, 5), 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_scores_of_collections_are_the_same_without_the_kernel(dtype, monkeypatch):
    images, texts = random_sets(70, 4, 64).to(dtype), random_sets(90, 3, 64, seed=1).to(dtype)
    compiled = similarity_matrix(images, texts)
    monkeypatch.setattr(blocks, "compiled_smooth_chamfer", lambda cosines, **options: None)
    torch.testing.assert_close(similarity_matrix(images, texts), compiled, atol=2e-7, rtol=0)


def test_without_a_compiled_file_there_is_no_kernel(tmp_path):
    assert libraries.load_kernel(tmp_path) is None
