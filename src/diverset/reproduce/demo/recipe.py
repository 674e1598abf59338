"""The recipes of the demo: two stages, each with sets of four and with one vector."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from diverset.recipe.config import Recipe
from diverset.recipe.named import recipe_path
from diverset.recipe.run_folder import read_recipe
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.variants import both_sets, with_changes

SETS, CONTROL = "sets of 4", "one vector"


@dataclass(frozen=True)
class Budget:
    """How much is drawn and trained; the defaults fit into five minutes on two cores.

    Attributes:
        single: training scenes with one situation, for the first stage.
        single_epochs: epochs of the first stage.
        images: training scenes with four situations, for the second stage.
        epochs: epochs of the second stage; None: as in recipes/demo.yaml.
        val: validation scenes, at least 50 for the calibration.
        test: test scenes, which the report and the library show.
        seed: of all trainings.
        jobs: processes that train in parallel; 0 trains in this process.
    """

    single: int = 3000
    single_epochs: int = 5
    images: int = 6000
    epochs: int | None = None
    val: int = 100
    test: int = 200
    seed: int = 0
    jobs: int = 2

    def limited(self, epochs: int | None, images: int | None) -> Budget:
        """The same with so many epochs and training scenes in both stages, where given."""
        return replace(
            self,
            single=images or self.single,
            images=images or self.images,
            single_epochs=epochs or self.single_epochs,
            epochs=epochs or self.epochs,
        )


def demo_experiment(folder: Path, budget: Budget) -> Experiment:
    """The recipe of the second stage, recipes/demo.yaml, within a budget."""
    file = recipe_path("demo")
    changes = {"train.seed": budget.seed}
    if budget.epochs is not None:
        changes["train.epochs"] = budget.epochs
    recipe = with_changes(read_recipe(file), changes)
    return Experiment(
        recipe_file=file,
        overrides=(),
        recipe=recipe,
        runs=folder,
        out=folder,
        cache=folder / "cache",
        split=recipe.data.val,
        jobs=budget.jobs,
    )


def single_vector(recipe: Recipe) -> Recipe:
    """The control: the same recipe with K = 1."""
    changed = with_changes(recipe, both_sets(size=1))
    return replace(changed, about=f"{recipe.about} (control: K = 1)")


def first_stage(recipe: Recipe, root: Path, epochs: int) -> Recipe:
    """The recipe for scenes with one situation.

    A situation covers two thirds of such a scene and 44 % of one with four. At two thirds of the
    input size it has the same size in pixels.
    """
    size = recipe.model.image.backbone_size
    assert size is not None
    changes = {
        "model.image.backbone_size": round(size * 0.66),
        "data.root": str(root),
        "train.epochs": epochs,
        "train.batch_size": 2 * recipe.train.batch_size,
        "train.evaluate_every": epochs,
    }
    return with_changes(recipe, changes)


def second_stage(recipe: Recipe, root: Path, first: Path) -> Recipe:
    """The recipe for scenes with four situations, from the weights of the first stage."""
    return with_changes(recipe, {"data.root": str(root), "train.initial_model": str(first)})
