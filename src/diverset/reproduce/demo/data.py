"""The demo's generated scenes: with one situation for the first stage, with four for the rest."""

from __future__ import annotations

from pathlib import Path

from diverset.reproduce.demo.recipe import Budget
from diverset.reproduce.scenes import ScenesOptions, write_scenes
from diverset.runtime.progress import Progress

SINGLE = ScenesOptions(situations=1, captions=2, size=42, variety="plain")
FOUR = ScenesOptions(
    situations=4, captions=4, size=64, variety="plain", distinct=True, held_out_size=384
)

SCENES_SEED = 1
"""The recipe was chosen on the scenes of seed 0, so the test scenes are others."""


def draw_data(folder: Path, budget: Budget, progress: Progress) -> tuple[Path, Path]:
    """Draw both datasets and return their folders; complete ones are kept."""
    single, four = folder / "single-scenes", folder / "scenes"
    task = progress.task("drawing scenes")
    write_scenes(single, budget.single, budget.val, 0, SCENES_SEED, SINGLE, task)
    write_scenes(four, budget.images, budget.val, budget.test, SCENES_SEED, FOUR, task)
    return single, four
