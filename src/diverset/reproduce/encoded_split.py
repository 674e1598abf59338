"""The embedding sets of the reported split, encoded by a trained run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from diverset.errors import OptionError
from diverset.evaluation.open_run import open_run
from diverset.model import Model
from diverset.recipe.encode import encode_split
from diverset.recipe.splits import SplitData, open_split
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.runs import Run
from diverset.runtime.device import resolve_device


@dataclass(frozen=True, eq=False)
class EncodedSplit:
    """A trained model, a split, and the embedding sets of its images and captions."""

    model: Model
    split: SplitData
    images: Float[Tensor, "images slots dim"]
    texts: Float[Tensor, "texts slots dim"]


def encode_run(experiment: Experiment, run: Run) -> EncodedSplit:
    """Encode the reported split with a run's best model."""
    model, data = open_run(str(run.folder), resolve_device(experiment.device))
    data = replace(data, root=run.recipe.data.root)
    split = open_split(data, experiment.split, model, experiment.cache)
    return EncodedSplit(model, split, *encode_split(model, split))


def check_several_elements(experiment: Experiment) -> None:
    """Raise unless the recipe's sets have at least two elements."""
    model = experiment.recipe.model
    for side in (model.image_set, model.text_set):
        if side.kind == "local" or side.size < 2:
            raise OptionError(
                f"{experiment.name} has sets of kind {side.kind} and size {side.size}; this study "
                "needs sets with two or more elements"
            )
