"""Invalid items and queries are rejected with an error that names the value."""

import numpy as np
import pytest
from index.index_support import make_index, make_sets

from diverset.errors import InputError, OptionError, ShapeError


def spoiled(value: float) -> np.ndarray:
    sets = make_sets(3)
    sets[1, 2] *= value
    return sets


@pytest.mark.parametrize(
    ("sets", "error", "words"),
    [
        (make_sets(3, elements=2), ShapeError, "2 elements.*3"),
        (make_sets(3, dim=8), ShapeError, "dimension 8.*16"),
        (make_sets(3)[0], ShapeError, r"\(3, 16\)"),
        (make_sets(2), ShapeError, "3 ids.*2 sets"),
        (np.ones((3, 3, 16), dtype=np.int64), InputError, "int64"),
        (spoiled(np.nan), InputError, r"element 2 of sets\[1\] has norm nan"),
        (spoiled(0.0), InputError, "norm 0, not 1"),
        (spoiled(1.1), InputError, "norm 1.1, not 1"),
    ],
)
def test_invalid_sets_are_rejected_and_nothing_is_stored(tmp_path, sets, error, words):
    with make_index(tmp_path) as index:
        with pytest.raises(error, match=words):
            index.add(["a", "b", "c"], sets)
        assert index.count() == 0


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (["a", "b", "a"], "duplicate id 'a'"),
        (["a", "", "c"], "cannot be stored"),
        (["a", 1, "c"], "id 1"),
        ("abc", "the string"),
        (["a", "b\0", "c"], "NUL"),
    ],
)
def test_invalid_ids_are_rejected_and_nothing_is_stored(tmp_path, ids, words):
    with make_index(tmp_path) as index:
        with pytest.raises(InputError, match=words):
            index.add(ids, make_sets(3))
        assert index.count() == 0


def test_invalid_queries_and_k_are_rejected(tmp_path):
    with make_index(tmp_path, 3) as index:
        assert len(index.search(make_sets(1), k=np.int64(2))[0]) == 2
        for k in (0, -1, 2.5, True):
            with pytest.raises(OptionError, match="k is"):
                index.search(make_sets(1), k=k)
        with pytest.raises(ShapeError, match="dimension 8"):
            index.search(make_sets(1, dim=8))
        with pytest.raises(InputError, match="norm nan"):
            index.search(spoiled(np.nan))
        with pytest.raises(OptionError, match="size is 0"):
            next(index.walk(0))
