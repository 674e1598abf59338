"""Where a reproduction works: its recipe, its folders, and which folder a row's run has.

The folder's name is a digest of everything that decides a run: the resolved recipe and the
captions it reads. Studies that ask for the same run find the same folder, today and tomorrow;
where the data lies does not matter. This module trains nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from diverset.analysis.rows import Row, changed
from diverset.config import to_dict
from diverset.data.scenes import write_scenes
from diverset.demo import SCENES, TEST, TRAIN, VAL
from diverset.errors import OptionError
from diverset.training.bars import Bars
from diverset.training.command import parse_recipe
from diverset.training.opening import read_split
from diverset.training.run import RESULT
from diverset.training.settings import DataConfig, Recipe

FORMAT = 1
SCENES_FILE = "dataset_scenes.json"
ABOUT = "a row of `diverset reproduce`"  # the same for all: rows of different names share runs


@dataclass(frozen=True)
class Run:
    """One training run: a resolved recipe and the folder that belongs to it."""

    name: str
    recipe: Recipe
    folder: Path

    @property
    def trained(self) -> bool:
        return (self.folder / RESULT).exists()

    @property
    def started(self) -> bool:
        return (self.folder / "checkpoints").exists()

    def report(self, split: str) -> Path:
        """Where the evaluation on a split is kept."""
        return self.folder / f"report-{file_name(split)}.json"

    def ranks(self, split: str) -> Path:
        return self.folder / f"ranks-{file_name(split)}.npz"


@dataclass(frozen=True)
class Bench:
    """One recipe under study.

    Attributes:
        file: the recipe's file; recipes of other methods are looked for beside it.
        overrides: changes from the command line, which hold for every row.
        recipe: the recipe with them.
        runs: folder of all runs.
        out: folder of tables and plots.
        store: cache folder for features of frozen networks.
        device: where to train and encode.
        split: name of the split that is reported.
        seeds: how many runs each row has.
        jobs: how many processes train side by side; 0 trains in this one.
        images: which pictures of the split to show; the first ones by default.
        cxc: folder with CxC's annotations.
        skip: methods that the comparison leaves out, by their names.
    """

    file: Path
    overrides: tuple[str, ...]
    recipe: Recipe
    runs: Path
    out: Path
    store: Path
    device: str = "cpu"
    split: str = "val"
    seeds: int = 2
    jobs: int = 1
    images: tuple[int, ...] = ()
    cxc: str = ""
    skip: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        return self.file.stem

    @property
    def dataset(self) -> str:
        return self.stem.split("_")[0]

    def titled(self, title: str) -> str:
        """A plot's title, with what it was measured on."""
        return f"{title} ({self.stem}, {self.split})"

    def recipe_of(self, row: Row) -> Recipe:
        """The row's own recipe file where there is one under equal backbones, else the changes."""
        if row.sibling:
            beside = self.file.with_name(f"{self.dataset}_{row.sibling}.yaml")
            if beside.exists():
                found = parse_recipe(str(beside), _without(self.overrides, row.changes))
                if _backbones(found) == _backbones(self.recipe):
                    return replace(found, data=replace(found.data, root=self.recipe.data.root))
        return changed(self.recipe, row.changes)

    def run_of(self, row: Row, seed: int) -> Run:
        recipe = self.recipe_of(row)
        recipe = replace(
            recipe,
            about=ABOUT,
            train=replace(recipe.train, seed=recipe.train.seed + seed),
        )
        folder = self.runs / f"{self.dataset}-{digest(recipe)}"
        return Run(f"{row.name}, seed {recipe.train.seed}", recipe, folder)

    def runs_of(self, rows: Sequence[Row], seeds: int | None = None) -> list[Run]:
        """All runs that these rows need, each once."""
        found: dict[Path, Run] = {}
        for row in rows:
            for seed in range(self.seeds if seeds is None else seeds):
                run = self.run_of(row, seed)
                found.setdefault(run.folder, run)
        return list(found.values())


def open_bench(
    file: str, overrides: Sequence[str], runs: Path, out: Path | None, split: str, store: Path
) -> Bench:
    """A bench with its data at hand; scenes are drawn where they are missing."""
    path = Path(file)
    recipe = parse_recipe(file, overrides)
    recipe = replace(recipe, data=with_scenes(recipe.data, runs / "scenes"))
    named = {"val": recipe.data.val, "test": recipe.data.test}
    return Bench(
        file=path,
        overrides=tuple(overrides),
        recipe=recipe,
        runs=runs,
        out=out or Path("results") / path.stem,
        store=store,
        split=named.get(split, split),
    )


def with_scenes(data: DataConfig, default: Path) -> DataConfig:
    """Draw the scenes that a recipe reads, unless they are there; other data is left alone."""
    if data.file != SCENES_FILE:
        return data
    if data.root == ".":
        data = replace(data, root=str(default))
    if not (Path(data.root) / SCENES_FILE).exists():
        with Bars() as bars:
            write_scenes(
                data.root,
                train=TRAIN,
                val=VAL,
                test=TEST,
                options=SCENES,
                progress=lambda done, total: bars.show("drawing pictures", done, total),
            )
    return data


def digest(recipe: Recipe) -> str:
    """Sixteen hexadecimal digits of what decides a run.

    Options at their defaults are left out, so that an option that is added later renames no run.
    """
    same = replace(recipe, about="", data=replace(recipe.data, root="."))
    content = {
        "format": FORMAT,
        "captions": captions_digest(recipe.data),
        "recipe": _differing(to_dict(same), to_dict(Recipe())),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


@cache
def captions_digest(data: DataConfig) -> str:
    """What the recipe reads, wherever it lies: two datasets must never share a run."""
    if not data.root:
        raise OptionError("data.root is empty; give --data.root, the folder of the data")
    found = hashlib.sha256()
    for split in (data.train, data.val):
        some = read_split(replace(data, images="", regions=""), split)
        found.update(json.dumps([some.image_ids, some.captions]).encode())
    return found.hexdigest()[:16]


def file_name(text: str) -> str:
    """Text as part of a file's name.

    >>> file_name("coco/test ids.npy")
    'coco-test-ids-npy'
    """
    return re.sub(r"\W+", "-", text).strip("-").lower()


def _without(overrides: Sequence[str], names: Container[str]) -> list[str]:
    """Overrides but for some options, which are a method's own.

    >>> _without(["--loss.margin", "0.3", "--optim.lr=0.1"], {"loss.margin"})
    ['--optim.lr=0.1']
    """
    kept, left_out = [], False
    for word in overrides:
        if word.startswith("--"):
            left_out = word[2:].split("=")[0] in names
        if not left_out:
            kept.append(word)
    return kept


def _differing(values: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        kept = _differing(value, defaults[name]) if isinstance(value, dict) else value
        if kept != ({} if isinstance(value, dict) else defaults[name]):
            found[name] = kept
    return found


def _backbones(recipe: Recipe) -> tuple[str, ...]:
    image, text = recipe.model.image, recipe.model.text
    return image.kind, image.backbone, text.kind, text.backbone
