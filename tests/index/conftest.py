"""Tests that ask for `backend` run with the compiled kernel and without it."""

import pytest

from diverset.index import scan
from diverset.index.compiled import load_kernel


@pytest.fixture(params=["kernel", "torch"])
def backend(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(scan, "load_kernel", lambda: None)
    elif load_kernel() is None:
        pytest.skip("the kernel is not built; run make kernel")
    return request.param
