"""A library as a folder: what is known of files, an index of pictures, an index of texts, a model.

Opening one needs neither torch nor the model; both are loaded by what asks for them.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diverset.errors import IndexFileError, OptionError, RebuiltError
from diverset.library.catalog import FILE, INDEXED, Catalog, File
from diverset.loading import CONFIG, DEFAULT, load, model_folder

if TYPE_CHECKING:
    from diverset.index import SetIndex
    from diverset.library.encoding import PictureEncoder
    from diverset.model import Model

INDEXES = ("pictures", "texts")
LOCK = "lock"


def default_folder() -> Path:
    """Where the library is unless another place is given."""
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "diverset" / "default"


class Library:
    """Indexed folders and tables; `Library.open` or `Library.prepare` make one."""

    def __init__(self, folder: Path, catalog: Catalog) -> None:
        self.folder, self.catalog = folder, catalog
        self.about = catalog.about
        self._file = os.stat(folder / FILE)

    @classmethod
    def open(cls, folder: str | Path = "") -> Library:
        """Open a library that is there."""
        place = Path(folder) if folder else default_folder()
        if not (place / FILE).exists():
            where = f" --library {folder}" if folder else ""
            raise IndexFileError(
                f"there is no library in {place}; make one with: diverset index FOLDER{where}"
            )
        found = cls(place, Catalog(place))
        if "fingerprint" not in found.about:
            raise IndexFileError(f"{place} was never filled; run diverset index FOLDER")
        return found

    @classmethod
    def prepare(cls, folder: str | Path = "", model: str = "", rebuild: bool = False) -> Library:
        """Open a library to add to it, or make it.

        Args:
            folder: of the library; the user's own by default.
            model: address of the model; that of the library by default.
            rebuild: empty it first, for this model or another one; folders and tables stay known.
        """
        place = Path(folder) if folder else default_folder()
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise IndexFileError(f"cannot make {place} ({error.strerror})") from error
        found = cls(place, Catalog(place))
        if model or rebuild or "fingerprint" not in found.about:
            with found._alone():
                found.about = found.catalog.about  # somebody else may just have made it
                found._use(model or found.about.get("model", DEFAULT), rebuild)
        return found

    def _use(self, address: str, rebuild: bool) -> None:
        wanted = _described(address)
        known = self.about.get("fingerprint")
        if known is None or rebuild:
            self.catalog.begin(wanted)
            for old in INDEXES if known else ():
                shutil.rmtree(self.folder / f"{old}-{known}", ignore_errors=True)
        elif known == wanted["fingerprint"]:
            self.catalog.note("model", wanted["model"])
        else:
            raise OptionError(
                f"{self.folder} holds sets of the model in {self.about['model']} ({known}), not of "
                f"{wanted['model']} ({wanted['fingerprint']}); give --rebuild to encode everything "
                "again, or another --library"
            )
        self.about = self.catalog.about

    @cached_property
    def pictures(self) -> SetIndex:
        """The sets of pictures, by path."""
        return self._index("pictures", self.about["image_slots"])

    @cached_property
    def texts(self) -> SetIndex:
        """The sets of texts, by table and row."""
        return self._index("texts", self.about["text_slots"])

    @cached_property
    def model(self) -> Model:
        """The model that everything in here was encoded with."""
        model = load(self.about["model"])
        if model.fingerprint() != self.about["fingerprint"]:
            raise IndexFileError(
                f"the model in {self.about['model']} has changed ({model.fingerprint()}, not "
                f"{self.about['fingerprint']}); give --model with the old one to diverset index, "
                "or --rebuild"
            )
        return model

    @cached_property
    def encoder(self) -> PictureEncoder:
        """How pictures become sets."""
        from diverset.library.encoding import PictureEncoder

        return PictureEncoder(self.model)

    def indexed(self, path: str | Path) -> File | None:
        """What is known of an indexed file, as long as its path leads to where it led then."""
        found = self.catalog.file(str(path))
        if found is None or found.status != INDEXED:
            return None
        return found if os.path.realpath(found.path) == found.place else None

    def check_current(self) -> None:
        """Raise if somebody has rebuilt or removed the library since it was opened."""
        try:
            now = os.stat(self.folder / FILE)
        except OSError:
            raise RebuiltError(f"{self.folder} was removed; index again") from None
        same = (now.st_dev, now.st_ino) == (self._file.st_dev, self._file.st_ino)
        if not same or self.catalog.about.get("made") != self.about.get("made"):
            raise RebuiltError(f"{self.folder} was rebuilt by another process; start again")

    @contextmanager
    def working(self) -> Iterator[None]:
        """Be the only process that indexes."""
        with self._alone():
            self.check_current()
            yield

    def job(self) -> dict[str, Any] | None:
        """How far indexing is, while some process is at it."""
        job = self.catalog.about.get("job")
        if not job or job["ended"]:
            return None
        try:
            with (self.folder / LOCK).open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return None
        except OSError:
            found: dict[str, Any] = job
            return found
        return None  # nobody holds the lock: whoever was at it was killed

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self.folder / LOCK).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise IndexFileError(
                    f"another process is indexing into {self.folder}; wait for it "
                    "(diverset status tells how far it is)"
                ) from error
            yield

    def close(self) -> None:
        for name in INDEXES:
            if name in self.__dict__:
                getattr(self, name).close()
        self.catalog.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _index(self, name: str, slots: int) -> SetIndex:
        from diverset.index import SetIndex, Settings
        from diverset.index.truth import FILE as TRUTH

        folder = self.folder / f"{name}-{self.about['fingerprint']}"
        if (folder / TRUTH).exists():
            return SetIndex.open(folder, self.about["fingerprint"])
        if self._holds(name):
            raise IndexFileError(
                f"{folder} is gone, with the sets of what was indexed; make them again with: "
                "diverset index --all --rebuild"
            )
        settings = Settings(
            self.about["fingerprint"], slots, self.about["dim"], alpha=self.about["alpha"]
        )
        return SetIndex.create(folder, settings)

    def _holds(self, name: str) -> bool:
        """Whether files or tables are known whose sets the index has to have."""
        if name == "pictures":
            return self.catalog.count(INDEXED) > 0
        return any(table.items for table in self.catalog.tables().values())


def _described(address: str) -> dict[str, Any]:
    """What a library has to know of a model, from its config alone."""
    folder = model_folder(address).resolve()
    content = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    model = content["model"]
    if model["similarity"]["kind"] != "smooth_chamfer":
        raise OptionError(
            f"{folder} compares by {model['similarity']['kind']}; the index needs smooth_chamfer"
        )
    if model["image"]["kind"] != "convolution" or not model["image"]["backbone"]:
        raise OptionError(f"{folder} does not read pictures but their features; give another model")
    return {
        "model": str(folder),
        "fingerprint": content["fingerprint"],
        "dim": model["dim"],
        "alpha": model["similarity"]["alpha"],
        "image_slots": model["image_set"]["size"],
        "text_slots": model["text_set"]["size"],
    }
