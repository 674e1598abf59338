"""The sets of a library for other programs: img_emb/*.npy with metadata/*.parquet, in parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from diverset.errors import DataError, import_extra
from diverset.library.library import Library

if TYPE_CHECKING:
    from diverset.index import SetIndex

PART = 10_000
FOLDERS = {"pictures": ("img_emb", "metadata"), "texts": ("text_emb", "text_metadata")}


def export(library: Library, out: str | Path, part: int = PART) -> dict[str, int]:
    """Write all sets (items, K, D) and beside them ids and metadata; how many of each kind.

    Args:
        library: opened.
        out: a folder that is not there or empty.
        part: items of one file.
    """
    import_extra("pyarrow.parquet", "data")
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is not empty; give a folder that is not there yet")
    written = {}
    for kind, (sets, about) in FOLDERS.items():
        index: SetIndex = getattr(library, kind)
        if index.count():
            written[kind] = _write(index, folder / sets, folder / about, part)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "about.json").write_text(json.dumps(library.about, indent=2), encoding="utf-8")
    return written


def _write(index: SetIndex, sets: Path, about: Path, part: int) -> int:
    arrow, parquet = import_extra("pyarrow", "data"), import_extra("pyarrow.parquet", "data")
    sets.mkdir(parents=True, exist_ok=True)
    about.mkdir(parents=True, exist_ok=True)
    count = 0
    for number, records in enumerate(index.walk(part)):
        np.save(sets / f"{sets.name}_{number:04}.npy", records.sets)
        names = sorted({name for one in records.metadata for name in one})
        columns = {name: [one.get(name) for one in records.metadata] for name in names}
        table = arrow.table({"id": records.ids, **columns})
        parquet.write_table(table, about / f"{about.name}_{number:04}.parquet")
        count += len(records.ids)
    return count
