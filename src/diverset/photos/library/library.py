"""A library as a folder: a catalog of files, an index of images, an index of texts, a model.

Opening one needs neither torch nor the model; both are loaded on first use.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diverset.data.walking import is_within
from diverset.errors import DamagedError, IndexFileError, OptionError, RebuiltError
from diverset.index.quick_checks import database_problem, holds_index, segment_problems
from diverset.model.folder import DEFAULT
from diverset.model.load import ModelIdentity, identify, load
from diverset.photos.library.catalog import CATALOG_FILE, INDEXED, SKIPPED, Catalog, FileRecord
from diverset.photos.library.catalog_repair import salvage_catalog
from diverset.runtime.close_on_error import close_on_error
from diverset.runtime.folders import user_data_folder
from diverset.runtime.locks import file_lock, is_locked

if TYPE_CHECKING:
    from diverset.index import IndexSettings, SetIndex
    from diverset.model import Model
    from diverset.photos.library.encoding import LibraryEncoder

UNLISTED = "unlisted"  # in the catalog's info
INDEXES = ("images", "texts")
LOCK = "lock"


def library_folder(folder: str | Path | None) -> Path:
    """The folder of a library; by default the user's own."""
    return Path(folder).expanduser() if folder else user_data_folder() / "default"


class Library:
    """Indexed folders and tables; made by `Library.open` or `Library.open_or_create`."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self.folder, self.catalog = folder, catalog
        self.info = catalog.info
        self._catalog_stat = os.stat(folder / CATALOG_FILE)

    @classmethod
    def open(cls, folder: str | Path | None = None) -> Library:
        """Open an existing library; default: the user's own."""
        path = library_folder(folder)
        option = f" --library {folder}" if folder else ""
        if not (path / CATALOG_FILE).exists():
            if stored_indexes(path):
                raise DamagedError(
                    f"{path / CATALOG_FILE}, with the list of indexed folders, is missing; index "
                    f"them again with diverset index FOLDER{option}, or restore a snapshot"
                )
            raise IndexFileError(
                f"there is no library in {path}; check the path, or create one with: "
                f"diverset index FOLDER{option}"
            )
        with close_on_error(cls(path, Catalog(path))) as library:
            if "fingerprint" not in library.info:
                raise IndexFileError(f"{path} is empty; run: diverset index FOLDER{option}")
            library.check_files()
        return library

    @classmethod
    def open_or_create(
        cls, folder: str | Path | None = None, model: str | None = None, rebuild: bool = False
    ) -> Library:
        """Open a library to add to it, or create it.

        Args:
            folder: of the library; default: the user's own.
            model: name or folder of a model; default: that of the library.
            rebuild: empty it first, for the same model or another; folders and tables are kept.
        """
        path = library_folder(folder)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise IndexFileError(
                f"cannot create {path} ({error.strerror}); give another --library"
            ) from error
        library = cls(path, open_catalog(path))
        if model or rebuild or "fingerprint" not in library.info:
            with library_lock(path):
                library.info = library.catalog.info  # another process may just have created it
                library._use_model(model or library.info.get("model", DEFAULT), rebuild)
        return library

    def _use_model(self, name: str, rebuild: bool) -> None:
        identity = identify(name)
        info = _model_info(identity)
        current = self.info.get("fingerprint")
        if current is None or rebuild:
            self.catalog.reset(info)
        elif current == info["fingerprint"]:
            self.catalog.set_info("model", info["model"])
        else:
            raise OptionError(
                f"{self.folder} holds sets of the model in {self.info['model']} ({current}), not "
                f"of {info['model']} ({info['fingerprint']}); give --rebuild to encode everything "
                "again, or another --library"
            )
        self.info = self.catalog.info
        if identity.model is not None:
            self.model = identity.model  # not loaded again
        self.sweep()

    def sweep(self) -> None:
        """Delete indexes that do not belong to the catalog: of other models or of a lost catalog.

        Call it with the lock held.
        """
        current = {self.index_folder(name) for name in INDEXES}
        for folder in stored_indexes(self.folder):
            if folder not in current:  # in use on a system that keeps open files: the next time
                shutil.rmtree(folder, ignore_errors=True)

    def check_files(self) -> None:
        """Raise if the sets of indexed files or texts are missing or unreadable."""
        for name in INDEXES:
            items = self.recorded_items(name)
            if items and (problem := database_problem(self.index_folder(name))):
                raise DamagedError(
                    f"{problem}, with the sets of {items:,} {name}; encode them again with "
                    "diverset index --all, or restore a snapshot"
                )

    def damaged_segments(self) -> list[str]:
        """Segments that are missing or truncated; the next search or indexing rebuilds them."""
        folders = [self.index_folder(name) for name in INDEXES]
        return [text for each in folders if each.exists() for text in segment_problems(each)]

    def index_folder(self, name: str) -> Path:
        """The folder of an index; each build of a library has its own."""
        return self.folder / f"{name}-{self.info['build_id'][:16]}"

    @cached_property
    def images(self) -> SetIndex:
        """The sets of images, by path."""
        return self._index("images")

    @cached_property
    def texts(self) -> SetIndex:
        """The sets of texts, by table and row."""
        return self._index("texts")

    @cached_property
    def model(self) -> Model:
        """The model that encoded everything in this library."""
        return self._load_model()

    @cached_property
    def text_model(self) -> Model:
        """The same model, of which only the text side is loaded unless all of it already is."""
        return self.model if "model" in self.__dict__ else self._load_model(texts_only=True)

    def _load_model(self, texts_only: bool = False) -> Model:
        model = load(self.info["model"], texts_only=texts_only)
        if model.fingerprint() != self.info["fingerprint"]:
            raise IndexFileError(
                f"the model in {self.info['model']} has changed ({model.fingerprint()}, not "
                f"{self.info['fingerprint']}); give --model with the old one to diverset index, "
                "or --rebuild"
            )
        return model

    @cached_property
    def encoder(self) -> LibraryEncoder:
        """The image encoder of the model."""
        from diverset.photos.library.encoding import LibraryEncoder

        return LibraryEncoder(self.model)

    def indexed_file(self, path: str | Path) -> FileRecord | None:
        """The record of an indexed file, if its path still leads to the file that was indexed."""
        record = self.catalog.file(str(path))
        if record is None or record.status != INDEXED:
            return None
        try:
            return record if os.path.realpath(record.path) == record.real_path else None
        except OSError:  # a link that was replaced by a file at this moment
            return None

    def check_current(self) -> None:
        """Raise if the library was rebuilt or removed since it was opened."""
        try:
            now = os.stat(self.folder / CATALOG_FILE)
        except OSError:
            raise RebuiltError(f"{self.folder} was removed; index again") from None
        same_file = os.path.samestat(now, self._catalog_stat)
        if not same_file or self.catalog.info.get("build_id") != self.info.get("build_id"):
            raise RebuiltError(f"{self.folder} was rebuilt by another process; start again")

    @contextmanager
    def indexing_lock(self) -> Iterator[None]:
        """Held by the only process that writes; raises if the library was rebuilt meanwhile."""
        with library_lock(self.folder):
            self.check_current()
            yield

    def skipped(self) -> dict[str, str]:
        """Every file that was found and is not searchable, with the reason."""
        listed = {file.path: file.reason for file in self.catalog.files(SKIPPED)}
        unlisted: dict[str, str] = self.catalog.info.get(UNLISTED, {})
        return listed | unlisted

    def set_unlisted(self, reasons: dict[str, str], roots: Sequence[Path]) -> None:
        """Record what lies in these folders and cannot be in the catalog: names that are not
        UTF-8, unreadable folders, pipes and devices."""
        known: dict[str, str] = self.catalog.info.get(UNLISTED, {})
        elsewhere = {path: why for path, why in known.items() if not is_within(path, roots)}
        if elsewhere | reasons != known:
            self.catalog.set_info(UNLISTED, elsewhere | reasons)

    def indexing_progress(self) -> dict[str, Any] | None:
        """The progress of a process that is indexing now."""
        progress: dict[str, Any] | None = self.catalog.info.get("indexing")
        if not progress or progress["finished"]:
            return None
        # Without the lock, the process that wrote this was killed.
        return progress if is_locked(self.folder / LOCK) else None

    def close(self) -> None:
        self.close_indexes()
        self.catalog.close()

    def close_indexes(self) -> None:
        """Close the indexes; they are opened again when they are used."""
        for name in INDEXES:
            if name in self.__dict__:
                self.__dict__.pop(name).close()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _index(self, name: str) -> SetIndex:
        from diverset.index import SetIndex

        folder = self.index_folder(name)
        if holds_index(folder):
            return SetIndex.open(folder, self.info["fingerprint"])
        self.check_files()
        return SetIndex.create(folder, self.index_settings(name))

    def index_settings(self, name: str) -> IndexSettings:
        from diverset.index import IndexSettings

        slots = self.info["image_slots" if name == "images" else "text_slots"]
        return IndexSettings(
            self.info["fingerprint"], slots, self.info["dim"], alpha=self.info["alpha"]
        )

    def recorded_items(self, index: str) -> int:
        """How many files or texts the catalog has whose sets must be in an index."""
        if index == "images":
            return self.catalog.count(INDEXED)
        return sum(table.items for table in self.catalog.tables().values())


def library_lock(folder: Path) -> AbstractContextManager[None]:
    """The lock of the process that writes to a library."""
    return file_lock(
        folder / LOCK,
        f"another process is writing to {folder}; wait for it to finish (diverset status shows "
        "its progress)",
    )


def stored_indexes(folder: Path) -> list[Path]:
    """The folders of all indexes in a library, of any build."""
    return sorted(path for name in INDEXES for path in folder.glob(f"{name}-*") if path.is_dir())


def open_catalog(folder: Path) -> Catalog:
    """The catalog; what is intact of it if it is damaged."""
    try:
        catalog = Catalog(folder)
        with close_on_error(catalog):
            catalog.check()
        return catalog
    except DamagedError as error:
        with library_lock(folder):
            salvage_catalog(folder)
        logging.getLogger(__name__).warning("%s: kept what is intact", error)
        return Catalog(folder)


def _model_info(identity: ModelIdentity) -> dict[str, Any]:
    """What a library stores of a model."""
    model, config = identity.name, identity.config
    if config.similarity.kind != "smooth_chamfer":
        raise OptionError(
            f"{model} compares sets by {config.similarity.kind}; a library needs smooth_chamfer"
        )
    if config.image.kind != "convolution" or not config.image.backbone:
        raise OptionError(
            f"{model} reads precomputed features, not images; give a model with an image backbone"
        )
    return {
        "model": model,
        "fingerprint": identity.fingerprint,
        "dim": config.dim,
        "alpha": config.similarity.alpha,
        "image_slots": config.image_set.size,
        "text_slots": config.text_set.size,
    }
