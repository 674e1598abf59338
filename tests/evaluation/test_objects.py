"""Object names as queries: mAP and precision at 10 against scikit-learn and by hand."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from diverset.errors import DataError, ShapeError
from diverset.evaluation.objects import read_labels, relevance, score_objects


@given(seed=st.integers(0, 10_000), images=st.integers(10, 60))
def test_average_precision_equals_scikit_learn(seed: int, images: int):
    rng = np.random.default_rng(seed)
    scores = rng.permutation(images)[None].astype(float)  # no ties
    relevant = rng.random((1, images)) < 0.3
    relevant[0, 0] = True
    report = score_objects(scores, relevant)
    expected = average_precision_score(relevant[0], scores[0])
    assert report.mean_average_precision == pytest.approx(expected)
    best = np.argsort(-scores[0])[:10]
    assert report.precision_at_10 == pytest.approx(relevant[0, best].mean())


def test_map_and_precision_are_means_over_objects():
    scores = np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])
    relevant = np.array([[True, False, False], [True, False, False]])
    report = score_objects(scores, relevant)
    assert report.mean_average_precision == pytest.approx((1 + 1 / 3) / 2)
    assert report.precision_at_10 == pytest.approx(1 / 3)


def test_labels_are_read_plain_or_gzipped_and_ids_lose_leading_zeros(tmp_path):
    text = "000025\tgiraffe\n9\tbowl, orange\n7\t\n"
    plain, packed = tmp_path / "labels.tsv", tmp_path / "labels.tsv.gz"
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    labels = read_labels(plain)
    assert labels == read_labels(packed)
    assert labels == {"25": {"giraffe"}, "9": {"bowl", "orange"}, "7": frozenset()}
    names, relevant, labelled = relevance(["25", "x", "000000000009", "7"], labels)
    assert names == ["bowl", "giraffe", "orange"]
    assert labelled.tolist() == [0, 2, 3]
    assert relevant.tolist() == [[False, True, False], [True, False, False], [False, True, False]]


def test_bad_labels_are_named(tmp_path):
    bad = tmp_path / "labels.tsv"
    bad.write_text("no tab here\n")
    with pytest.raises(DataError, match="line 1 of .* has no tab"):
        read_labels(bad)
    with pytest.raises(DataError, match="cannot read labels"):
        read_labels(tmp_path / "missing.tsv")
    with pytest.raises(DataError, match="no image of this split has labels"):
        relevance(["a"], {"b": frozenset({"dog"})})
    with pytest.raises(ShapeError, match="one row per name"):
        score_objects(np.zeros((1, 3)), np.zeros((2, 3), dtype=bool))
