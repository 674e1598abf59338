"""The showcased queries: a few captions of test scenes, chosen by position, not by result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from diverset.recipe.splits import SplitData

QUERIES, HITS = 6, 3
RULE = f"the first caption of each of the first {QUERIES} test scenes"


@dataclass(frozen=True)
class Showcase:
    """One query under one model.

    Attributes:
        caption: row of the caption in the split.
        image: row of its image.
        hits: rows of the best images, best first.
        rank: rank of its image, 1 is best.
    """

    caption: int
    image: int
    hits: tuple[int, ...]
    rank: int


def showcase(split: SplitData, scores: Float[Tensor, "images texts"]) -> list[Showcase]:
    """The showcased queries under the scores of a model."""
    queries = [int(captions[0]) for captions in split.by_image[:QUERIES]]
    return [_search(query, int(split.dataset.image_index[query]), scores) for query in queries]


def _search(query: int, image: int, scores: Tensor) -> Showcase:
    order = np.argsort(-scores[:, query].numpy(), kind="stable").tolist()
    return Showcase(query, image, tuple(order[:HITS]), order.index(image) + 1)


def found_first(queries: Sequence[Showcase]) -> int:
    """How many queries have their image at rank 1."""
    return sum(query.rank == 1 for query in queries)
