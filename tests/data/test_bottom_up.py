import base64
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from diverset.data import BottomUpRegions
from diverset.errors import DataError


def features(seed: int, boxes: int, width: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((boxes, width)).astype(np.float32)


def line(image: str, array: np.ndarray, boxes: int | str | None = None) -> bytes:
    count = len(array) if boxes is None else boxes
    corners = np.arange(len(array) * 4, dtype=np.float32)
    cells = [image, "640", "480", str(count)]
    cells += [base64.b64encode(part.tobytes()).decode() for part in (corners, array)]
    return "\t".join(cells).encode() + b"\n"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    first, second = tmp_path / "a.tsv", tmp_path / "b.tsv"
    first.write_bytes(line("7", features(7, 3)) + b"\n" + line("8", features(8, 1)))
    second.write_bytes(line("9", features(9, 2)) + line("7", features(0, 5)))
    return [first, second]


def test_features_with_varying_boxes_are_read_from_several_files(files: list[Path]):
    regions = BottomUpRegions(files, ["9", "7", "8"])
    assert (len(regions), regions.width) == (3, 6)
    # The second line of image 7 is ignored.
    for index, (seed, boxes) in enumerate([(9, 2), (7, 3), (8, 1)]):
        np.testing.assert_array_equal(regions[index], features(seed, boxes))
    assert regions[0].dtype == np.float32 and regions[0].flags.writeable


def test_regions_can_be_pickled_and_read_by_threads(files: list[Path]):
    regions = pickle.loads(pickle.dumps(BottomUpRegions(files, ["7", "8", "9"])))
    with ThreadPoolExecutor(4) as pool:
        read = list(pool.map(regions.__getitem__, [0, 1, 2] * 20))
    for index, array in enumerate(read):
        np.testing.assert_array_equal(array, regions[index % 3])


def test_missing_ids_are_named_with_an_example_of_the_ids_in_the_files(files: list[Path]):
    with pytest.raises(DataError, match=r"2 of 3 images .*: '70', '80'; .* such as '7'"):
        BottomUpRegions(files, ["70", "7", "80"])
    with pytest.raises(DataError, match="no image ids"):
        BottomUpRegions(files, [])


def test_truncated_lines_are_rejected(tmp_path: Path):
    file = tmp_path / "cut.tsv"
    whole = line("5", features(5, 2))
    for keep in (1, 10, 50, len(whole) - 3, len(whole) - 5):
        file.write_bytes(whole[:keep])
        with pytest.raises(DataError, match=r"image '5' in .*cut.tsv"):
            BottomUpRegions([file], ["5"])


def test_damaged_line_of_another_image_is_ignored(tmp_path: Path):
    file = tmp_path / "cut.tsv"
    file.write_bytes(line("5", features(5, 2)) + b"6\t640")
    assert len(BottomUpRegions([file], ["5"])) == 1


def test_features_of_different_width_are_rejected(tmp_path: Path):
    file = tmp_path / "mixed.tsv"
    file.write_bytes(line("1", features(1, 2)) + line("2", features(2, 2, width=5)))
    with pytest.raises(DataError, match="image '2' .* width 5, image '1' of width 6"):
        BottomUpRegions([file], ["1", "2"])


@pytest.mark.parametrize("boxes", ["0", "-1", "many", "3"])
def test_wrong_number_of_boxes_is_rejected(tmp_path: Path, boxes: str):
    file = tmp_path / "boxes.tsv"
    file.write_bytes(line("1", features(1, 2), boxes))
    with pytest.raises(DataError, match=f"image '1' in .*boxes.tsv has .*{boxes}"):
        BottomUpRegions([file], ["1"])


def test_damage_after_indexing_is_reported_on_access(files: list[Path]):
    regions = BottomUpRegions(files, ["8"])
    files[0].write_bytes(files[0].read_bytes().replace(b"8\t640", b"8\t641")[:-4] + b"*==\n")
    with pytest.raises(DataError, match="features of image '8' in .*a.tsv"):
        regions[0]
    files[0].unlink()
    with pytest.raises(DataError, match="a.tsv"):
        regions[0]


def test_missing_file_is_named(tmp_path: Path):
    with pytest.raises(DataError, match="absent.tsv"):
        BottomUpRegions([tmp_path / "absent.tsv"], ["1"])
