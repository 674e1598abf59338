import json

import pytest
import torch

from diverset.errors import DataError, InputError
from diverset.evaluation import Member, cxc_scores, read_cxc

MATCHES = {
    "i2t": {"7": [["70", 4.5], ["99", 5.0]], "8": [["81", 4.0]], "9": []},
    "t2i": {"70": [[7, 4.5]], "71": [[8, 3.5], [7, 5]], "81": [[8, 4.0]]},
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "testall_ids.txt").write_text("7\n7\n8\n8\n9\n")
    (tmp_path / "testall_capids.txt").write_text("70\n71\n81\n")
    (tmp_path / "cxc_it.json").write_text(json.dumps(MATCHES))
    return tmp_path


def member(image_to_text):
    """A model whose scores are these, one row per image."""
    scores = torch.tensor(image_to_text)
    images = torch.eye(len(scores), dtype=scores.dtype)[:, None]
    return Member(images, scores.T[:, None], lambda a, b, **_: a[:, 0] @ b[:, 0].T)


def test_published_file_layout_is_read(folder):
    result = read_cxc(folder)
    assert list(result.image_to_text) == ["7", "8", "9"]
    assert list(result.text_to_image) == ["70", "71", "81"]
    # Caption 99 is not in the collection; image 9 has no match at all.
    assert result.image_to_text == {"7": {"70"}, "8": {"81"}, "9": set()}
    assert result.text_to_image == {"70": {"7"}, "71": {"7", "8"}, "81": {"8"}}


def test_any_match_counts_and_a_query_without_matches_is_a_miss(folder):
    scores = [[0.9, 0.8, 0.3], [0.5, 0.9, 0.7], [0.1, 0.2, 0.3]]  # images 7, 8, 9
    result = cxc_scores([member(scores)], read_cxc(folder), ("7", "8", "9"), ("70", "71", "81"))
    # Image 8 finds caption 71 first; caption 71 matches images 7 and 8.
    assert result["cxc_r1"] == {"i2t": pytest.approx(100 / 3), "t2i": pytest.approx(100)}
    assert result["cxc_r5"] == {"i2t": pytest.approx(200 / 3), "t2i": pytest.approx(100)}
    assert result["images"] == "3 of 3" and result["queries"] == {"i2t": "3 of 3", "t2i": "3 of 3"}
    # Without caption ids, the order of the files counts.
    assert cxc_scores([member(scores)], read_cxc(folder), ("a", "b", "c")) == result


def test_part_of_the_images_skips_queries_without_matches_there(folder):
    """Caption 70 matches image 7 only, which is missing; image 9 never had a match: a miss."""
    scores = [[0.1, 0.2, 0.9], [0.9, 0.5, 0.7]]  # images 9 and 8; captions 81, 70, 71
    annotations = read_cxc(folder)
    result = cxc_scores([member(scores)], annotations, ("9", "8"), ("81", "70", "71"))
    assert result["queries"] == {"i2t": "2 of 3", "t2i": "2 of 3"}
    assert result["images"] == "2 of 3" and result["captions"] == "3 of 3"
    # Caption 81 finds image 8, caption 71 finds image 9 first; image 8 finds caption 81.
    assert result["cxc_r1"] == {"i2t": pytest.approx(50), "t2i": pytest.approx(50)}


def test_captions_without_annotations_are_left_out_of_the_rankings(folder):
    scores = [[0.9, 0.8, 0.3, 1.0], [0.5, 0.6, 0.7, 1.0]]
    ids = ("70", "71", "81", "1234")
    result = cxc_scores([member(scores)], read_cxc(folder), ("7", "8"), ids)
    assert result["cxc_r1"]["i2t"] == pytest.approx(100) and result["captions"] == "3 of 3"


def test_damaged_files_are_named(folder):
    (folder / "cxc_it.json").write_text('{"i2t": {"7": []}}')
    with pytest.raises(DataError, match="cxc_it.json cannot be read .*'8'"):
        read_cxc(folder)
    (folder / "cxc_it.json").write_text("[")
    with pytest.raises(DataError, match="cxc_it.json is not complete JSON"):
        read_cxc(folder)
    (folder / "testall_capids.txt").write_text("70\n70\n")
    with pytest.raises(DataError, match="duplicate ids"):
        read_cxc(folder)
    (folder / "testall_ids.txt").write_text("\n")
    with pytest.raises(DataError, match="testall_ids.txt is empty"):
        read_cxc(folder)
    with pytest.raises(DataError, match="cannot read .*testall_ids.txt"):
        read_cxc(folder / "nowhere")


def test_other_collections_are_rejected(folder):
    annotations, small = read_cxc(folder), member([[0.1, 0.2], [0.3, 0.4]])
    with pytest.raises(InputError, match="2 images and 2 captions without ids, and annotations"):
        cxc_scores([small], annotations, ("7", "8"))
    with pytest.raises(DataError, match="1 of 2 images are not annotated .'5'."):
        cxc_scores([small], annotations, ("7", "5"), ("70", "71"))
    with pytest.raises(DataError, match="no caption is annotated; the ids begin with '1', '2'"):
        cxc_scores([small], annotations, ("7", "8"), ("1", "2"))
