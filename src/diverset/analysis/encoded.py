"""The sets of a finished run on the reported split, for studies that look into them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from diverset.analysis.bench import Bench, Run
from diverset.analysis.worker import encoding_device
from diverset.errors import OptionError
from diverset.model import Model
from diverset.training.encoding import encode_split
from diverset.training.evaluating import open_run
from diverset.training.opening import Opened, open_split


@dataclass(frozen=True, eq=False)
class Encoded:
    """A trained model, a split, and the sets that it gives to it."""

    model: Model
    split: Opened
    images: Float[Tensor, "images slots dim"]
    texts: Float[Tensor, "texts slots dim"]


def encode_run(bench: Bench, run: Run) -> Encoded:
    """Encode the reported split with a run's best model."""
    model, data = open_run(str(run.folder), encoding_device(bench.device))
    data = replace(data, root=run.recipe.data.root)
    split = open_split(
        data, bench.split, model.architecture, model.vocabulary, bench.store, model=model
    )
    return Encoded(model, split, *encode_split(model, split))


def check_sets_of_several(bench: Bench) -> None:
    """Studies of single elements need sets of more than one element."""
    model = bench.recipe.model
    for side in (model.image_set, model.text_set):
        if side.kind == "local" or side.size < 2:
            raise OptionError(
                f"{bench.stem} has sets of kind {side.kind} and size {side.size}; this study "
                "looks at elements, so give a recipe with sets of two or more"
            )
