import sys
from pathlib import Path
from typing import Any

import pytest

from diverset.data import read_table
from diverset.data.table import read_rows
from diverset.errors import DataError, DiversetError, MissingExtraError, OptionError

ROWS = [
    ("a.jpg", "a dog, running", "train"),
    ("b.jpg", 'a "cat"', "val"),
    ("a.jpg", "it runs", "train"),
]


def csv_file(folder: Path) -> Path:
    lines = [f'{i},"{c.replace(chr(34), chr(34) * 2)}",{s}' for i, c, s in ROWS]
    file = folder / "mine.csv"
    file.write_text("\ufeffimage,caption,split\r\n" + "\r\n".join(lines), encoding="utf-8")
    return file


def tsv_file(folder: Path) -> Path:
    lines = ["\t".join([s, c.replace('"', '""').join('""'), i]) for i, c, s in ROWS]
    file = folder / "mine.TSV"
    file.write_text("split\tcaption\timage\n" + "\n".join(lines))
    return file


def parquet_file(folder: Path) -> Path:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = dict(
        zip(("image", "caption", "split"), map(list, zip(*ROWS, strict=True)), strict=True)
    )
    file = folder / "mine.parquet"
    parquet.write_table(arrow.table(columns), file, row_group_size=1)
    return file


@pytest.mark.parametrize("write", [csv_file, tsv_file, parquet_file])
def test_every_format_is_read(tmp_path: Path, write: Any):
    file = write(tmp_path)
    (tmp_path / "a.jpg").touch()
    (tmp_path / "b.jpg").touch()
    dataset = read_table(file, tmp_path)
    assert dataset.name == "mine"
    assert dataset.image_ids == ("a.jpg", "b.jpg")
    assert dataset.captions_of(0) == ("a dog, running", "it runs")
    assert dataset.captions_of(1) == ('a "cat"',)
    assert dataset.image_paths == (tmp_path / "a.jpg", tmp_path / "b.jpg")
    train = read_table(file, None, "train")
    assert (train.name, train.image_ids, len(train.captions)) == ("mine/train", ("a.jpg",), 2)
    assert len(read_table(file, None, "train+val")) == 2


@pytest.mark.parametrize("write", [csv_file, parquet_file])
def test_unknown_columns_and_splits_are_rejected(tmp_path: Path, write: Any):
    file = write(tmp_path)
    with pytest.raises(DataError, match="no column 'path'; it has: image, caption, split"):
        list(read_rows(file, ["path"]))
    with pytest.raises(DataError, match="no split 'test' in column 'split'; it has: train, val"):
        read_table(file, None, "test")
    with pytest.raises(DataError, match="2 of 2 images of mine .*'a.jpg', 'b.jpg'"):
        read_table(file, tmp_path)


def test_missing_images_are_skipped(tmp_path: Path):
    (tmp_path / "b.jpg").touch()
    assert read_table(csv_file(tmp_path), tmp_path, missing="skip").image_ids == ("b.jpg",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,caption\na.jpg,\n", "line 2 of .* has '' in column 'caption'"),
        ("image,caption\na.jpg\n", "line 2 of .* has None in column 'caption'"),
        ("image,caption\na.jpg,one, two\n", "line 2 .* more cells"),
        ('image,caption\na.jpg,"one\n', "bad.csv cannot be read"),
        ("image,caption\n", "bad has no images"),
        ("image,text\n", "no column 'caption'; it has: image, text"),
        ("", "no column 'image'; it has: no columns"),
    ],
)
def test_malformed_rows_are_rejected(tmp_path: Path, text: str, message: str):
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with pytest.raises(DataError, match=message):
        read_table(file, None)


def test_missing_and_unreadable_files_are_named(tmp_path: Path):
    with pytest.raises(DataError, match="absent.csv"):
        read_table(tmp_path / "absent.csv", None)
    with pytest.raises(OptionError, match="'.xlsx'; choose one of: .csv, .tsv, .parquet"):
        read_table(tmp_path / "mine.xlsx", None)
    (tmp_path / "latin.csv").write_bytes(b"image,caption\na.jpg,caf\xe9\n")
    with pytest.raises(DataError, match="latin.csv"):
        read_table(tmp_path / "latin.csv", None)


def test_truncated_parquet_and_empty_cells_are_rejected(tmp_path: Path):
    arrow = pytest.importorskip("pyarrow")
    file = parquet_file(tmp_path)
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(DataError, match="mine.parquet cannot be read"):
        read_table(file, None)
    table = arrow.table({"image": ["a.jpg", "b.jpg"], "caption": ["one", None]})
    sys.modules["pyarrow.parquet"].write_table(table, file)
    with pytest.raises(DataError, match="row 1 of .* has None in column 'caption'"):
        read_table(file, None)


def test_parquet_without_pyarrow_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "mine.parquet"
    file.touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pyarrow is missing.*diverset\[data\]") as caught:
        read_table(file, None)
    assert isinstance(caught.value, ImportError) and isinstance(caught.value, DiversetError)
