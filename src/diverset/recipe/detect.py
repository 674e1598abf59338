"""Which dataset is in a folder: its caption file, format, images and splits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from diverset.data import KarpathyFile
from diverset.data.dataset import ALL
from diverset.data.table import MissingColumnError, read_rows
from diverset.errors import DataError, OptionError
from diverset.recipe.config import ROLES, DataConfig


def detect_dataset(
    path: Path,
    data: DataConfig | None = None,
    *,
    format: str | None = None,
    file: str | None = None,
    images: str | None = None,
) -> DataConfig:
    """The dataset in a folder, or of a caption file.

    Args:
        path: the folder or the file.
        data: other options, such as `limit`; the defaults if not given.
        format: if it is not detected from the name of the file.
        file: caption file in the folder; the only one by default.
        images: folder of the images; by default "images", if it exists.
    """
    path = path.expanduser()
    if not path.exists():
        raise DataError(f"{path} does not exist; give the folder of a dataset, or a caption file")
    if file is not None and not path.is_dir():
        raise OptionError(f"{path} is a file; give its folder, or omit --file {file}")
    root = path
    if not path.is_dir():
        root, file = path.parent, path.name
    elif file is None and format != "precomp":
        file = find_caption_file(path)
    if images is None and file is not None and (root / "images").is_dir():
        images = "images"
    return replace(
        data or DataConfig(),
        format=format or detect_format(file),
        root=str(root),
        file=file,
        images=images,
        regions=None,
        sources=(),
        train="train",
        val="val",
        test="test",
    )


def has_caption_files(data: DataConfig) -> bool:
    """Whether the root of a recipe's data has one of the files that the recipe names."""
    sources = [source for role in ROLES for source, _ in data.resolve(role)]
    return any(
        any(Path(source.root).glob("*_caps.txt"))
        if source.format == "precomp"
        else source.file and Path(source.root, source.file.split(",")[0]).is_file()
        for source in sources
    )


def file_splits(data: DataConfig) -> list[str]:
    """All splits in the files of a dataset; "all" if it is not divided."""
    root, path = Path(data.root).expanduser(), Path(data.root, data.file or "").expanduser()
    if data.file is None and data.format in ("karpathy", "table"):
        raise DataError(f"format {data.format} needs a caption file; give --file")
    if data.format == "karpathy":
        names = [str(entry["split"]) for entry in KarpathyFile(path).entries]
    elif data.format == "table":
        try:
            names = [str(row[0]).strip() for _, row in read_rows(path, ["split"])]
        except MissingColumnError:
            names = [ALL]
    elif data.format == "precomp":
        names = [file.name.removesuffix("_caps.txt") for file in sorted(root.glob("*_caps.txt"))]
    else:
        names = [file.name for file in sorted(root.glob("*_ids.npy"))] or [ALL]
    if not names:
        raise DataError(
            f"{path} has no splits of format {data.format}; give --file, --format or --split"
        )
    return list(dict.fromkeys(names))


def default_split(data: DataConfig) -> str:
    """The split to evaluate if none is named: "val", or the only one."""
    names = file_splits(data)
    if "val" not in names and len(names) > 1:
        raise OptionError(
            f"{Path(data.root, data.file or '')} has no split 'val'; give --split, one of: "
            f"{', '.join(names if data.format == 'precomp' else [*names, ALL])}"
        )
    return "val" if "val" in names else names[0]


def find_caption_file(folder: Path) -> str | None:
    """Name of the only caption file in a folder; None for a folder of SCAN precomp files.

    COCO's captions_*.json belong together.
    """
    if any(folder.glob("*_caps.txt")):
        return None
    patterns = ("dataset_*.json", "*.csv", "*.tsv", "*.parquet")
    names = sorted(file.name for pattern in patterns for file in folder.glob(pattern))
    if len(names) == 1:
        return names[0]
    coco = sorted(file.name for file in folder.glob("captions_*.json"))
    if coco and not names:
        return ",".join(coco)
    held = f"has several caption files ({', '.join(names)})" if names else "has no caption file"
    raise DataError(f"{folder} {held}; give --file, and --format if it is not detected")


def detect_format(file: str | None) -> str:
    """The usual format of a caption file with this name.

    >>> [detect_format(name) for name in ("a.csv", "captions_val2014.json", "d.json", None)]
    ['table', 'coco', 'karpathy', 'precomp']
    """
    if file is None:
        return "precomp"
    if Path(file).suffix.lower() != ".json":
        return "table"
    return "coco" if Path(file).name.startswith("captions_") else "karpathy"
