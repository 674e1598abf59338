"""Models from strangers: every fault in config.json is one of diverset's errors."""

import json
import shutil

import numpy as np
import pytest
from photos.library_support import make_model

from diverset import Model
from diverset.errors import DataError, DiversetError
from diverset.runtime.files import load_array


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("model"))


def with_config(model, folder, change) -> str:
    shutil.copytree(model, folder)
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_bytes(change(content))
    return str(folder)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"format":' + b"[" * 100_000, b'{"a": 1']
)
def test_a_config_that_is_none_is_named(model, tmp_path, data):
    with pytest.raises(DiversetError, match=r"config\.json"):
        Model.from_pretrained(with_config(model, tmp_path / "model", lambda _: data))


def replaced(content: dict, path: str, value: object) -> bytes:
    part, *names = content, *path.split(".")
    for name in names[:-1]:
        part = part[name]
    part[names[-1]] = value
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model", None),
        ("model.image", None),
        ("model.image_set", []),
        ("model.dim", 10**9),
        ("model.dim", 100_000),  # 40 GB, if it were allocated
        ("model.image_set.inner_width", 1_000_000),
        ("model.image_set.iterations", 10**9),
        ("model.image_set.mlp_factor", float("inf")),
        ("model.text.input_width", 10**8),
        ("model.similarity.alpha", float("nan")),
        ("model.similarity.alpha", 10**400),
        ("fingerprint", 5),
        ("frozen_backbones", 3.5),
        ("frozen_backbones", {"image": None}),
    ],
)
def test_strange_values_in_a_config_are_rejected_without_allocating_them(
    model, tmp_path, path, value
):
    with pytest.raises(DiversetError):
        folder = with_config(
            model, tmp_path / "model", lambda content: replaced(content, path, value)
        )
        Model.from_pretrained(folder)


@pytest.mark.parametrize("header", ["(" * 100, "{'descr': '<f4', 'shape': (1,)}", "nonsense"])
def test_arrays_with_a_damaged_header_are_named(tmp_path, header):
    text = header.encode().ljust(117) + b"\n"
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    with pytest.raises(DataError, match=r"cannot read .*a\.npy"):
        load_array(tmp_path / "a.npy")


def test_an_array_that_claims_to_be_huge_is_named(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((10, 4), np.float32))
    data = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(data.replace(b"(10, 4), }         ", b"(9999999999999, 4)}"))
    with pytest.raises(DataError, match=r"cannot read .*a\.npy"):
        load_array(tmp_path / "a.npy")
