import json

import numpy as np
import pytest

from diverset.errors import DataError, InputError
from diverset.evaluation import Top, cxc_recalls, read_cxc

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


def test_reads_the_published_layout(folder):
    found = read_cxc(folder)
    assert found.image_ids == ("7", "8", "9") and found.caption_ids == ("70", "71", "81")
    # Caption 99 is not in the collection; image 9 has no match at all.
    assert found.image_to_text == (frozenset({0}), frozenset({2}), frozenset())
    assert found.text_to_image == (frozenset({0}), frozenset({0, 1}), frozenset({1}))


def test_recalls_count_any_match_and_miss_where_there_is_none(folder):
    top = Top(
        image_to_text=np.array([[0, 1, 2], [0, 1, 2], [0, 1, 2]]),
        text_to_image=np.array([[1, 2, 0], [2, 1, 0], [1, 0, 2]]),
    )
    found = cxc_recalls(top, read_cxc(folder))
    assert found["cxc_r1"] == {"i2t": pytest.approx(100 / 3), "t2i": pytest.approx(100 / 3)}
    assert found["cxc_r5"] == {"i2t": pytest.approx(200 / 3), "t2i": pytest.approx(100)}


def test_broken_files_are_named(folder):
    (folder / "cxc_it.json").write_text('{"i2t": {"7": []}}')
    with pytest.raises(DataError, match="cxc_it.json cannot be read .*'8'"):
        read_cxc(folder)
    (folder / "cxc_it.json").write_text("[")
    with pytest.raises(DataError, match="JSONDecodeError"):
        read_cxc(folder)
    (folder / "testall_capids.txt").write_text("70\n70\n")
    with pytest.raises(DataError, match="repeats ids"):
        read_cxc(folder)
    (folder / "testall_ids.txt").write_text("\n")
    with pytest.raises(DataError, match="testall_ids.txt is empty"):
        read_cxc(folder)
    with pytest.raises(DataError, match="testall_ids.txt cannot be read"):
        read_cxc(folder / "nowhere")


def test_rankings_have_to_fit(folder):
    top = Top(np.zeros((2, 3), np.int64), np.zeros((3, 3), np.int64))
    with pytest.raises(InputError, match="rankings of 2 images and annotations of 3"):
        cxc_recalls(top, read_cxc(folder))
