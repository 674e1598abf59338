"""Search without the compiled kernel: bounds by torch, and the private product they use."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from index.index_support import make_index, make_sets

from diverset.index import bounds, scan, torch_search
from diverset.index.explain import smooth_chamfer_from_cosines
from diverset.index.quantized_codes import quantize, quantize_queries
from diverset.index.set_store import MAX_ALPHA, MIN_ALPHA
from diverset.index.verify_codes import bounds_hold
from diverset.runtime import torch_private


@pytest.fixture
def no_kernel(monkeypatch):
    monkeypatch.setattr(scan, "load_kernel", lambda: None)


def test_a_large_k_does_not_switch_later_searches_to_element_bounds(
    tmp_path, monkeypatch, no_kernel
):
    monkeypatch.setattr(torch_search, "PRUNE_BATCH", 10)
    monkeypatch.setattr(torch_search, "SMALL_K", 5)
    with make_index(tmp_path, 400) as index:
        assert len(index.search(make_sets(1), k=300)[0]) == 300
        assert index.view().scan._torch._bound is bounds.mean_bounds


def test_the_buffer_of_bounds_is_freed_after_large_batches(tmp_path, monkeypatch, no_kernel):
    monkeypatch.setattr(torch_search, "BOUNDS_BUFFER", 0)
    with make_index(tmp_path, 640) as index:
        held = index.view().scan._torch
        for queries in (1, 4, 30):
            index.search(make_sets(queries))
            assert held._bounds_buffer.nbytes <= 16 * 640
        index.search(make_sets(4))
        assert held._bounds_buffer.nbytes == 16 * 640


@given(
    data=st.data(),
    elements=st.integers(1, 4),
    dim=st.sampled_from([1, 3, 8, 24]),
    alpha=st.sampled_from([MIN_ALPHA, 0.5, 16.0, 100.0, MAX_ALPHA]),
)
def test_no_exact_score_exceeds_its_bounds(data, elements, dim, alpha):
    """Any directions, from spikes to nearly equal elements; any alpha."""
    seed = data.draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)

    def draw(count, elements):
        sets = rng.normal(size=(count, elements, dim)) ** data.draw(st.sampled_from([1, 5]))
        sets = sets + data.draw(st.sampled_from([0, 10])) * rng.normal(size=(count, 1, dim))
        unit = sets / np.linalg.norm(sets, axis=2, keepdims=True)
        return (unit * rng.uniform(0.99, 1.01, size=(count, elements, 1))).astype(np.float32)

    items, queries = draw(20, elements), draw(3, data.draw(st.integers(1, 4)))
    codes = quantize(np.arange(20), items, alpha)
    assert bounds_hold(codes, torch.from_numpy(items).double(), alpha).all()
    batch = bounds.QueryBatch(quantize_queries(queries), alpha)
    cosines = np.einsum("qid,njd->qnij", queries.astype(float), items.astype(float))
    exact = torch.from_numpy(
        np.stack([smooth_chamfer_from_cosines(pairs, alpha) for pairs in cosines])
    )
    for bound in (bounds.mean_bounds, bounds.element_bounds):
        out = torch.empty(3, 20)
        bound(batch, codes, out)
        assert (out >= exact).all()
    for n, scores in enumerate(exact):
        for fine in (False, True):
            query = batch.queries[n : n + 1]
            near, margin = bounds.estimates(query, codes, torch.arange(20), alpha, fine)
            assert ((near - scores).abs() <= margin).all()


def test_hits_are_equal_without_int8_matmul(tmp_path, monkeypatch, no_kernel):
    queries = make_sets(3, seed=2)
    with make_index(tmp_path, 200) as index:
        expected = index.search(queries)
        monkeypatch.setattr(torch_private, "has_int8_matmul", lambda: False)
        assert index.search(queries) == expected


def test_a_saturating_int8_matmul_is_detected():
    def saturating(queries, codes, out=None):
        return (queries.int() @ codes.int().T).clamp(-32768, 32767)

    assert not torch_private.has_int8_matmul(saturating)


def test_rows_of_different_length_are_padded_with_minus_one():
    rows = [np.array([4, 7]), np.array([], dtype=np.int64), np.array([1])]
    assert torch_search.pad(rows).tolist() == [[4, 7], [-1, -1], [1, -1]]
    assert torch_search.pad([]).shape == (0, 0)
