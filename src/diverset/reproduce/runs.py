"""A training run of a reproduction: its resolved recipe and its folder.

The folder name is a digest of everything that decides the run: the resolved recipe and the captions
it reads. Studies that need the same run share its folder, and the data may be moved.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from diverset.config import non_default_options
from diverset.errors import DataError, OptionError
from diverset.recipe.config import DataConfig, Recipe
from diverset.recipe.datasets import DatasetReader
from diverset.recipe.run_folder import RESULT
from diverset.reproduce.scenes import SCENES_FILE, write_default_scenes

FORMAT = 1
Failed = Mapping[Path, str]
"""Folders of failed runs, with the reasons."""


@dataclass(frozen=True)
class Run:
    """One training run: a resolved recipe and its folder."""

    name: str
    recipe: Recipe
    folder: Path

    @property
    def is_trained(self) -> bool:
        return (self.folder / RESULT).exists()

    @property
    def is_started(self) -> bool:
        return (self.folder / "checkpoints").exists()

    @property
    def seconds(self) -> float:
        """How long the training took."""
        return float(json.loads((self.folder / RESULT).read_text(encoding="utf-8"))["seconds"])

    def report(self, split: str) -> Path:
        """File of the evaluation on a split."""
        return self.folder / f"report-{file_name(split)}.json"

    def ranks(self, split: str) -> Path:
        """File of the ranks on a split."""
        return self.folder / f"ranks-{file_name(split)}.npz"


def unique_runs(runs: Iterable[Run]) -> list[Run]:
    """The runs of different folders: variants of different names may share a run."""
    by_folder: dict[Path, Run] = {}
    for run in runs:
        by_folder.setdefault(run.folder, run)
    return list(by_folder.values())


def run_digest(recipe: Recipe) -> str:
    """Sixteen hexadecimal digits of what decides a run.

    Options at their defaults are left out: an option that is added later renames no run.
    """
    content = {
        "format": FORMAT,
        "captions": captions_digest(recipe.data),
        "recipe": non_default_options(
            replace(recipe, about="", data=replace(recipe.data, root="."))
        ),
    }
    text = json.dumps(content, sort_keys=True, default=non_default_options)  # of data.sources
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def captions_digest(data: DataConfig) -> str:
    """Digest of the training and validation captions, wherever the files are."""
    if not data.root:
        raise OptionError("data.root is empty; give --data.root, the folder of the data")
    if scenes_missing(data):
        with TemporaryDirectory() as folder:
            write_default_scenes(folder, draw=False)
            return captions_digest(replace(data, root=folder))
    digest = hashlib.sha256()
    reader = DatasetReader(data, captions_only=True)
    for split in (data.train, data.val):
        dataset = reader.read(split)
        digest.update(json.dumps([dataset.image_ids, dataset.captions]).encode())
    return digest.hexdigest()[:16]


def scenes_missing(data: DataConfig) -> bool:
    """Whether a recipe reads generated scenes that have not been drawn yet."""
    return data.file == SCENES_FILE and not (Path(data.root) / SCENES_FILE).exists()


def check_scenes(data: DataConfig) -> None:
    """Raise with the command that draws the scenes if a recipe needs them and they are missing."""
    if scenes_missing(data):
        raise DataError(
            f"{SCENES_FILE} is not in {data.root}; draw it with `python -m "
            "diverset.reproduce.scenes scenes` and add --data.root scenes"
        )


def file_name(text: str) -> str:
    """Text as part of a file name.

    >>> file_name("coco/test ids.npy")
    'coco-test-ids-npy'
    """
    return re.sub(r"\W+", "-", text).strip("-").lower()
