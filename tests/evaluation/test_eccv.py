import hashlib
import json
import sys

import numpy as np
import pytest
import torch
from support import FIXTURES, random_sets

from diverset.errors import DataError, MissingExtraError
from diverset.evaluation import Member, eccv_scores, evaluate_sets, in_percent
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
    owners = [metrics.coco_gts["t2i"][caption][0] for caption in captions]
    return list(dict.fromkeys(owners)), captions, Member(*sets, "mil")


@pytest.mark.slow
def test_against_the_package(coco, capsys):
    images, captions, member = coco
    found = eccv_scores([member], [str(one) for one in images], captions)
    expected = dict(EXPECTED["metrics"])
    expected |= {f"eccv_r{level}": both for level, both in expected.pop("eccv_recalls").items()}
    assert found == {name: both for name, both in expected.items() if "1k" not in name}
    assert capsys.readouterr().err == ""
    assert in_percent(found)["coco_5k_r1"]["i2t"] == pytest.approx(14.8)


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "tag"), [("full", "coco_5k"), ("coco_1k", "coco_1k")])
def test_our_recalls_are_those_of_the_package(coco, protocol, tag):
    _, _, member = coco
    owners = np.repeat(np.arange(5000), 5)
    found = evaluate_sets(member.images, member.texts, owners, "mil", protocol, health=False)
    for level in (1, 5, 10):
        expected = EXPECTED["metrics"][f"{tag}_r{level}"]
        assert getattr(found.image_to_text, f"r{level}") == pytest.approx(100 * expected["i2t"])
        assert getattr(found.text_to_image, f"r{level}") == pytest.approx(100 * expected["t2i"])


def test_other_collections_are_refused(coco):
    images, captions, _ = coco
    small = Member(random_sets(2, 1, 8), random_sets(3, 1, 8))
    with pytest.raises(DataError, match="3 image ids for 2 images"):
        eccv_scores([small], images[:3], captions[:3])
    with pytest.raises(DataError, match="4998 missing"):
        eccv_scores([small], images[:2], captions[:3])
    with pytest.raises(DataError, match="1 foreign .7."):
        eccv_scores([small], [images[0], 7], captions[:3])
    with pytest.raises(DataError, match="not COCO's numbers .*'a.jpg'"):
        eccv_scores([small], ["a.jpg", "b.jpg"], captions[:3])


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "eccv_caption", None)
    member = Member(random_sets(2, 1, 8), random_sets(3, 1, 8))
    with pytest.raises(MissingExtraError, match=r"diverset\[eccv\]"):
        eccv_scores([member], [1, 2], [1, 2, 3])
