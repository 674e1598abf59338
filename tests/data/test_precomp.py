import pickle
from pathlib import Path

import numpy as np
import pytest

from diverset.data import MappedRegions, read_precomp
from diverset.errors import DataError, OptionError


def write(folder: Path, array: np.ndarray, captions: int, ids: list[str] | None = None) -> Path:
    np.save(folder / "dev_ims.npy", array)
    text = "".join(f"caption {number}\n" for number in range(captions))
    (folder / "dev_caps.txt").write_text(text)
    if ids is not None:
        (folder / "dev_ids.txt").write_text("\n".join(ids))
    return folder


def rows(count: int) -> np.ndarray:
    return np.arange(count * 3 * 4, dtype=np.float32).reshape(count, 3, 4)


def test_features_with_one_row_per_image_are_read(tmp_path: Path):
    dataset = read_precomp(write(tmp_path, rows(2), 10), "dev")
    assert dataset.image_ids == ("0", "1")
    assert dataset.image_index.tolist() == [0] * 5 + [1] * 5
    assert dataset.captions_of(1)[0] == "caption 5"
    assert dataset.regions is not None
    assert (dataset.regions.width, len(dataset.regions)) == (4, 2)
    np.testing.assert_array_equal(dataset.regions[1], rows(2)[1])


def test_captions_per_image_follow_from_the_rows(tmp_path: Path):
    dataset = read_precomp(write(tmp_path, rows(3), 6), "dev")
    assert dataset.image_index.tolist() == [0, 0, 1, 1, 2, 2]


def test_features_with_one_row_per_caption_are_read_once_per_image(tmp_path: Path):
    ids = [str(number // 5 + 70) for number in range(10)]
    dataset = read_precomp(write(tmp_path, rows(2).repeat(5, axis=0), 10, ids), "dev")
    assert dataset.image_ids == ("70", "71")
    assert dataset.regions is not None and len(dataset.regions) == 2
    np.testing.assert_array_equal(dataset.regions[1], rows(2)[1])


def test_one_caption_per_image(tmp_path: Path):
    write(tmp_path, rows(5), 5)
    with pytest.raises(DataError, match="rows 0 and 1 differ.*captions_per_image=1"):
        read_precomp(tmp_path, "dev")
    assert len(read_precomp(tmp_path, "dev", captions_per_image=1)) == 5
    with pytest.raises(OptionError, match="captions_per_image is 0"):
        read_precomp(tmp_path, "dev", captions_per_image=0)


def test_ids_per_image_or_per_caption(tmp_path: Path):
    write(tmp_path, rows(2), 4, ["x", "y"])
    assert read_precomp(tmp_path, "dev").image_ids == ("x", "y")
    write(tmp_path, rows(2), 4, ["x", "y", "z"])
    with pytest.raises(DataError, match="dev_ids.txt has 3 ids for 2 images and 4 captions"):
        read_precomp(tmp_path, "dev")


@pytest.mark.parametrize(("count", "captions"), [(2, 5), (3, 2), (7, 7)])
def test_captions_not_divisible_by_images_are_rejected(tmp_path: Path, count: int, captions: int):
    write(tmp_path, rows(count), captions)
    with pytest.raises(DataError, match=f"{captions} captions for {count} rows.*multiple"):
        read_precomp(tmp_path, "dev")


def test_features_are_mapped_not_loaded_and_not_pickled(tmp_path: Path):
    write(tmp_path, np.zeros((2, 100, 100), np.float16), 2)
    regions = MappedRegions(tmp_path / "dev_ims.npy")
    assert isinstance(regions._rows, np.memmap)
    content = pickle.dumps(regions)
    assert len(content) < 1000
    copy = pickle.loads(content)
    assert copy[1].dtype == np.float32 and copy[1].flags.writeable


def test_pooled_feature_is_a_single_region(tmp_path: Path):
    write(tmp_path, np.ones((2, 8), np.float32), 4)
    assert MappedRegions(tmp_path / "dev_ims.npy")[0].shape == (1, 8)


@pytest.mark.parametrize("keep", [0, 20, 150])
def test_truncated_array_is_rejected(tmp_path: Path, keep: int):
    file = write(tmp_path, rows(2), 10) / "dev_ims.npy"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(DataError, match="dev_ims.npy.*damaged"):
        read_precomp(tmp_path, "dev")


@pytest.mark.parametrize(
    "array",
    [np.zeros(3), np.zeros((2, 3), np.int64), np.zeros((0, 3, 4)), np.array([{}], object)],
)
def test_arrays_that_are_not_features_are_rejected(tmp_path: Path, array: np.ndarray):
    write(tmp_path, array, 10)
    with pytest.raises(DataError, match="dev_ims.npy"):
        read_precomp(tmp_path, "dev")


def test_missing_files_are_named(tmp_path: Path):
    with pytest.raises(DataError, match="test_ims.npy"):
        read_precomp(tmp_path, "test")
    np.save(tmp_path / "test_ims.npy", rows(1))
    with pytest.raises(DataError, match="test_caps.txt"):
        read_precomp(tmp_path, "test")


def test_blank_lines_count_only_before_the_end(tmp_path: Path):
    write(tmp_path, rows(1), 2)
    (tmp_path / "dev_caps.txt").write_text("one\u2028line\ntwo\n\n", encoding="utf-8")
    assert len(read_precomp(tmp_path, "dev").captions) == 2
    (tmp_path / "dev_caps.txt").write_text("one\n\nthree\n")
    with pytest.raises(DataError, match="caption 1 .*no words"):
        read_precomp(tmp_path, "dev")
    (tmp_path / "dev_caps.txt").write_text("")
    with pytest.raises(DataError):
        read_precomp(tmp_path, "dev")
