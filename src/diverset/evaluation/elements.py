"""What single elements are worth: evaluation with some elements of the sets instead of all.

An element that retrieves as well alone as the whole set does carries it; one that retrieves
nothing alone has a part that only shows beside the others. This module does not know where sets
come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jaxtyping import Float
from torch import Tensor

from diverset.errors import OptionError, ShapeError, check_choice
from diverset.evaluation.evaluate import evaluate_sets
from diverset.evaluation.members import Owners
from diverset.evaluation.report import Report

SIDES = ("images", "texts", "both")


def select_elements(
    sets: Float[Tensor, "items elements dim"], elements: Sequence[int] | int | None
) -> Float[Tensor, "items chosen dim"]:
    """The same sets with only these elements; None keeps all.

    >>> import torch
    >>> select_elements(torch.eye(3)[None], [2, 0]).tolist()
    [[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]
    """
    if elements is None:
        return sets
    if sets.ndim != 3:
        raise ShapeError(
            f"the sets have shape {tuple(sets.shape)}; a batch of sets is (items, elements, dim)"
        )
    chosen = [elements] if isinstance(elements, int) else list(elements)
    wrong = [one for one in chosen if not 0 <= one < sets.shape[1]]
    if wrong or not chosen or len(set(chosen)) < len(chosen):
        raise OptionError(
            f"elements is {chosen}; choose different ones from 0 to {sets.shape[1] - 1}"
        )
    return sets[:, chosen]


def evaluate_elements(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"],
    owners: Owners,
    *,
    image_elements: Sequence[int] | int | None = None,
    text_elements: Sequence[int] | int | None = None,
    extras: Mapping[str, Any] | None = None,
    **how: Any,
) -> Report:
    """Evaluate with some elements of either side; the report's extras say which.

    Args:
        images: image sets, l2-normalised.
        texts: text sets, l2-normalised.
        owners: for each text the index of its image.
        image_elements: which elements of the image sets to keep; all by default.
        text_elements: which elements of the text sets to keep; all by default.
        extras: what else to put into the report.
        how: passed on to `evaluate_sets`: similarity, protocol, alpha, ...
    """
    noted = {
        "image elements": _named(image_elements),
        "text elements": _named(text_elements),
        **(extras or {}),
    }
    return evaluate_sets(
        select_elements(images, image_elements),
        select_elements(texts, text_elements),
        owners,
        extras=noted,
        **how,
    )


def evaluate_each_element(
    images: Float[Tensor, "images slots dim"],
    texts: Float[Tensor, "texts text_slots dim"],
    owners: Owners,
    side: str = "images",
    **how: Any,
) -> list[Report]:
    """One report for every single element of a side, the other side left whole.

    With side "both", one for every pair of elements, image elements first.
    """
    check_choice("side", side, SIDES)
    ours = range(images.shape[1]) if side in ("images", "both") else [None]
    theirs = range(texts.shape[1]) if side in ("texts", "both") else [None]
    return [
        evaluate_elements(images, texts, owners, image_elements=one, text_elements=other, **how)
        for one in ours
        for other in theirs
    ]


def _named(elements: Sequence[int] | int | None) -> str:
    if elements is None:
        return "all"
    chosen = [elements] if isinstance(elements, int) else elements
    return ", ".join(str(one) for one in chosen)
