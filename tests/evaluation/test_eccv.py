import hashlib
import json
import sys

import numpy as np
import pytest
import torch
from support import FIXTURES, random_sets

from diverset.errors import DataError, MissingExtraError
from diverset.evaluation import Member, eccv_scores, evaluate_sets
from diverset.evaluation.eccv import _annotations

EXPECTED = json.loads((FIXTURES / "eccv.json").read_text())


def unit_sets(vectors, side, sides=2):
    """Vectors as sets of one, so that cosines are their inner products up to one factor."""
    vectors = vectors / np.linalg.norm(vectors, axis=1).max()
    rest = np.zeros((len(vectors), sides))
    rest[:, side] = np.sqrt(np.maximum(0, 1 - np.square(vectors).sum(axis=1)))
    return torch.from_numpy(np.concatenate([vectors, rest], axis=1))[:, None]


@pytest.fixture(scope="module")
def coco():
    """COCO's test split with the stored ranking: image ids, caption ids, and one member."""
    pytest.importorskip("eccv_caption", reason="pip install 'diverset[eccv]'", exc_type=ImportError)
    generator = np.random.default_rng(EXPECTED["seed"])
    images = generator.standard_normal((5000, EXPECTED["D"]))
    texts = 1.1 * np.repeat(images, 5, axis=0) + generator.standard_normal((25000, EXPECTED["D"]))
    for name, vectors in (("img", images), ("txt", texts)):
        digest = hashlib.sha256(vectors.astype(np.float32)).hexdigest()
        assert digest == EXPECTED["sha256"][name], "numpy draws other numbers from this seed"
    sets = [
        unit_sets(vectors.astype(np.float32).astype(np.float64), side)
        for side, vectors in enumerate((images, texts))
    ]
    metrics = _annotations()
    captions = metrics.coco_ids.tolist()
    image_index = [metrics.coco_gts["t2i"][caption][0] for caption in captions]
    return list(dict.fromkeys(image_index)), captions, Member(*sets, "mil")


@pytest.mark.slow
def test_scores_equal_the_eccv_caption_package(coco, capsys):
    images, captions, member = coco
    scores = eccv_scores([member], [str(image) for image in images], captions)
    expected = dict(EXPECTED["metrics"])
    expected |= {f"eccv_r{level}": both for level, both in expected.pop("eccv_recalls").items()}
    assert scores.metrics == {
        name: {direction: 100 * value for direction, value in both.items()}
        for name, both in expected.items()
        if "1k" not in name
    }
    assert capsys.readouterr().err == ""
    assert scores.metrics["coco_5k_r1"]["i2t"] == pytest.approx(14.8)
    assert scores.coverage["images"] == "5,000 of 5,000"
    assert scores.coverage["ECCV Caption queries"] == {
        "i2t": "1,261 of 1,261",
        "t2i": "1,332 of 1,332",
    }


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "tag"), [("full", "coco_5k"), ("coco_1k", "coco_1k")])
def test_recalls_equal_the_eccv_caption_package(coco, protocol, tag):
    _, _, member = coco
    image_index = np.repeat(np.arange(5000), 5)
    scores = evaluate_sets(member.images, member.texts, image_index, "mil", protocol, health=False)
    for level in (1, 5, 10):
        expected = EXPECTED["metrics"][f"{tag}_r{level}"]
        assert getattr(scores.image_to_text, f"r{level}") == pytest.approx(100 * expected["i2t"])
        assert getattr(scores.text_to_image, f"r{level}") == pytest.approx(100 * expected["t2i"])


@pytest.mark.slow
def test_part_of_the_test_split_is_scored_on_the_matches_that_are_there(coco):
    """A fifth of the images, shuffled, with a caption that is not annotated."""
    images, captions, member = coco
    metrics = _annotations()
    rng = np.random.default_rng(0)
    rows = rng.choice(5000, 1000, replace=False)
    texts = (5 * rows[:, None] + np.arange(5)).ravel()
    member = Member(member.images[rows], member.texts[[*texts, 0]], "mil")
    image_ids = [images[row] for row in rows]
    caption_ids = [captions[row] for row in texts]
    result = eccv_scores([member], image_ids, [*caption_ids, 999_999_999])

    scores = (member.images[:, 0] @ member.texts[:-1, 0].T).numpy()
    precisions, missing = [], set(captions) - set(caption_ids)
    for row, id_ in enumerate(image_ids):
        matches = set(metrics.eccv_gts["i2t"].get(id_, ()))
        left = matches - missing
        if left:
            best = np.argsort(-scores[row], kind="stable")[: len(left)]
            precisions.append(np.mean([caption_ids[item] in left for item in best]))
    measured = result.metrics["eccv_rprecision"]["i2t"]
    assert measured == pytest.approx(100 * np.mean(precisions))
    assert result.coverage["images"] == "1,000 of 5,000"
    assert result.coverage["captions"] == "5,000 of 25,000"
    assert result.coverage["ECCV Caption queries"]["i2t"] == f"{len(precisions)} of 1,261"
    index = np.repeat(np.arange(1000), 5)
    recalls = evaluate_sets(member.images, member.texts[:-1], index, "mil", health=False)
    measured = result.metrics["coco_5k_r5"]
    assert measured["i2t"] == pytest.approx(recalls.image_to_text.r5)
    assert measured["t2i"] == pytest.approx(recalls.text_to_image.r5)


def test_other_collections_are_rejected(coco):
    images, captions, _ = coco
    small = Member(random_sets(2, 1, 8), random_sets(3, 1, 8))
    with pytest.raises(DataError, match="3 image ids for 2 images"):
        eccv_scores([small], images[:3], captions[:3])
    with pytest.raises(DataError, match="none of 2 queries has a match, 24997 items"):
        eccv_scores([small], images[:2], captions[-3:])
    with pytest.raises(DataError, match="1 of 2 images are not annotated .7."):
        eccv_scores([small], [images[0], 7], captions[:3])
    with pytest.raises(DataError, match="no caption is annotated"):
        eccv_scores([small], images[:2], [1, 2, 3])
    with pytest.raises(DataError, match="not COCO's numbers .*'a.jpg'"):
        eccv_scores([small], ["a.jpg", "b.jpg"], captions[:3])


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "eccv_caption", None)
    member = Member(random_sets(2, 1, 8), random_sets(3, 1, 8))
    with pytest.raises(MissingExtraError, match=r"diverset\[eccv\]"):
        eccv_scores([member], [1, 2], [1, 2, 3])
