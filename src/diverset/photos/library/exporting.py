"""The sets of a library for other programs: img_emb/*.npy with metadata/*.parquet, in parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from diverset.errors import DataError, import_extra
from diverset.photos.library.library import Library

if TYPE_CHECKING:
    from diverset.index import SetIndex

PART_SIZE = 10_000
FOLDERS = {"images": ("img_emb", "metadata"), "texts": ("text_emb", "text_metadata")}


def export(library: Library, out: str | Path, part_size: int = PART_SIZE) -> dict[str, int]:
    """Write all sets (items, K, D) with their ids and metadata into a new or empty folder, in files
    of `part_size` items; returns the items per index."""
    import_extra("pyarrow.parquet", "data")
    folder = Path(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is not empty; give a new folder")
    written = {}
    for name, (sets, metadata) in FOLDERS.items():
        index: SetIndex = getattr(library, name)
        if index.count():
            written[name] = _write(index, folder / sets, folder / metadata, part_size)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "library.json").write_text(json.dumps(library.info, indent=2), encoding="utf-8")
    return written


def _write(index: SetIndex, sets: Path, metadata: Path, part_size: int) -> int:
    arrow, parquet = import_extra("pyarrow", "data"), import_extra("pyarrow.parquet", "data")
    sets.mkdir(parents=True, exist_ok=True)
    metadata.mkdir(parents=True, exist_ok=True)
    count = 0
    for number, records in enumerate(index.walk(part_size)):
        np.save(sets / f"{sets.name}_{number:04}.npy", records.sets)
        names = sorted({name for fields in records.metadata for name in fields})
        columns = {name: [fields.get(name) for fields in records.metadata] for name in names}
        table = arrow.table({"id": records.ids, **columns})
        parquet.write_table(table, metadata / f"{metadata.name}_{number:04}.parquet")
        count += len(records.ids)
    return count
