"""Files of tensors: read by safetensors, with tensors at multiples of a cache line and a page."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from diverset.index.tensor_file import LINE, PAGE, write_tensors


@pytest.mark.parametrize(("items", "dim"), [(1, 1), (3, 5), (7, 64), (100, 256), (33, 20)])
def test_codes_begin_with_a_cache_line_and_sets_with_a_page(tmp_path, items, dim):
    file = tmp_path / "a.codes"
    tensors = {
        "rows": torch.arange(items),
        "sets": torch.randn(items, 2, dim),
        "codes": torch.randint(-127, 128, (2, items, dim), dtype=torch.int8),
        "scale": torch.randn(items),
    }
    write_tensors(file, tensors, {"format": "test"})
    loaded = load_file(file)
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(loaded[name], tensor)
    with safe_open(file, framework="pt") as opened:
        assert opened.metadata() == {"format": "test"}
    if dim % LINE == 0:
        assert loaded["codes"].data_ptr() % LINE == 0
        assert loaded["sets"].data_ptr() % PAGE == 0
