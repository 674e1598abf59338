import pytest
import torch

from diverset.errors import OptionError
from diverset.runtime.device import resolve_device


@pytest.mark.parametrize(("has_gpu", "expected"), [(True, "cuda"), (False, "cpu")])
def test_auto_is_a_gpu_if_there_is_one(monkeypatch, has_gpu, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: has_gpu)
    assert resolve_device("auto") == expected


def test_a_gpu_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(OptionError, match="device is 'cuda:1', but torch finds no GPU here"):
        resolve_device("cuda:1")
