"""The base recipe, folders and options of one `diverset reproduce` command."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from diverset.recipe.config import Recipe
from diverset.recipe.named import recipe_path
from diverset.reproduce.runs import Run, run_digest, scenes_missing, unique_runs
from diverset.reproduce.scenes import SCENES_FILE, write_default_scenes
from diverset.reproduce.variants import Variant, with_changes
from diverset.runtime.progress import Progress
from diverset.training.train import parse_recipe

ABOUT = "a run of `diverset reproduce`"  # the same for all: variants of different names share runs


@dataclass(frozen=True)
class Experiment:
    """A base recipe with everything that its variants share.

    Attributes:
        recipe_file: the recipe; recipes of other methods are expected in the same folder.
        overrides: options from the command line, which hold for every variant.
        recipe: the recipe with the overrides.
        runs: folder of all runs.
        out: folder of tables and plots.
        cache: folder for features of frozen backbones.
        device: where to train and encode.
        split: name of the reported split.
        seeds: number of runs per variant.
        jobs: processes that train in parallel; 0 trains in this process.
        images: indices of the images that `attention` shows; the first ones by default.
        skip: methods that the comparison leaves out, by name.
        ensembles: whether the comparison also evaluates two seeds together.
    """

    recipe_file: Path
    overrides: tuple[str, ...]
    recipe: Recipe
    runs: Path
    out: Path
    cache: Path
    device: str = "cpu"
    split: str = "val"
    seeds: int = 2
    jobs: int = 1
    images: tuple[int, ...] = ()
    skip: tuple[str, ...] = ()
    ensembles: bool = True

    @property
    def name(self) -> str:
        return self.recipe_file.stem

    @property
    def dataset(self) -> str:
        return self.name.split("_")[0]

    def plot_title(self, title: str) -> str:
        """A plot's title with recipe and split."""
        return f"{title} ({self.name}, {self.split})"

    def recipe_for(self, variant: Variant) -> Recipe:
        """The method's own recipe file if it exists with equal backbones, else the changes."""
        if variant.recipe:
            file = self.recipe_file.with_name(f"{self.dataset}_{variant.recipe}.yaml")
            if file.exists():
                own = parse_recipe(str(file), _without(self.overrides, variant.changes))
                if _backbones(own) == _backbones(self.recipe):
                    return replace(own, data=replace(own.data, root=self.recipe.data.root))
        return with_changes(self.recipe, variant.changes)

    def run_for(self, variant: Variant, seed: int) -> Run:
        """The run of a variant with the recipe's seed + `seed`."""
        recipe = self.recipe_for(variant)
        train = replace(recipe.train, seed=recipe.train.seed + seed)
        recipe = replace(recipe, about=ABOUT, train=train)
        folder = self.runs / f"{self.dataset}-{run_digest(recipe)}"
        return Run(f"{variant.name}, seed {train.seed}", recipe, folder)

    def runs_for(self, variants: Sequence[Variant], seeds: int | None = None) -> list[Run]:
        """All runs that these variants need, each once."""
        numbers = range(self.seeds if seeds is None else seeds)
        return unique_runs(self.run_for(variant, seed) for variant in variants for seed in numbers)

    def draw_missing_scenes(self) -> None:
        """Draw the generated dataset if the recipe reads it and it does not exist."""
        data = self.recipe.data
        if scenes_missing(data):
            with Progress() as progress:
                write_default_scenes(data.root, progress=progress.task("drawing images"))


def open_experiment(
    recipe_file: str,
    overrides: Sequence[str],
    runs: Path,
    out: Path | None,
    split: str,
    cache: Path,
) -> Experiment:
    """Resolve a recipe; scenes without a data.root belong into the folder of the runs."""
    path = recipe_path(recipe_file)
    recipe = parse_recipe(recipe_file, overrides)
    if recipe.data.file == SCENES_FILE and recipe.data.root == ".":
        recipe = replace(recipe, data=replace(recipe.data, root=str(runs / "scenes")))
    return Experiment(
        recipe_file=path,
        overrides=tuple(overrides),
        recipe=recipe,
        runs=runs,
        out=out or Path("results") / path.stem,
        cache=cache,
        split={"val": recipe.data.val, "test": recipe.data.test}.get(split, split),
    )


def _without(overrides: Sequence[str], names: Container[str]) -> list[str]:
    """The overrides except for some options.

    >>> _without(["--loss.margin", "0.3", "--optim.lr=0.1"], {"loss.margin"})
    ['--optim.lr=0.1']
    """
    remaining, skipping = [], False
    for word in overrides:
        if word.startswith("--"):
            skipping = word[2:].split("=")[0] in names
        if not skipping:
            remaining.append(word)
    return remaining


def _backbones(recipe: Recipe) -> tuple[str | None, ...]:
    image, text = recipe.model.image, recipe.model.text
    return image.kind, image.backbone, text.kind, text.backbone
