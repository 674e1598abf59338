"""Collections of images with labelled queries and their similarities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Int

from diverset.data import CaptionDataset
from diverset.evaluation.absent_things import ABSENT_THINGS
from diverset.evaluation.caption_words import CaptionWords
from diverset.evaluation.labelled_queries import LabelledQuery, absent_queries, draw_queries
from diverset.model import Model
from diverset.similarity import similarity_matrix

COLLECTION = 1000  # images per collection; larger ones have fewer relevant images per query
QUERIES = 500  # of each kind per collection


@dataclass(frozen=True, eq=False)
class Collection:
    """Labelled queries and their similarity to all images of a collection.

    Attributes:
        queries: with the images that are relevant to them.
        scores: similarities.
        dataset: name; all datasets together count the same.
    """

    queries: Sequence[LabelledQuery]
    scores: Float[np.ndarray, "queries images"]
    dataset: str = ""

    @classmethod
    def of(
        cls,
        model: Model,
        dataset: CaptionDataset,
        images: Float[torch.Tensor, "images slots dim"],
        vocabulary: CaptionWords,
        rng: np.random.Generator,
        count: int = QUERIES,
    ) -> Collection:
        """Draw queries of a dataset, and compare them with its encoded images."""
        queries = draw_queries(dataset, vocabulary, count, rng)
        queries += absent_queries(dataset, ABSENT_THINGS)
        return replace(cls.search(model, queries, images), dataset=dataset.name)

    @classmethod
    def search(
        cls,
        model: Model,
        queries: Sequence[LabelledQuery],
        images: Float[torch.Tensor, "images slots dim"],
    ) -> Collection:
        """Compare queries with encoded images."""
        texts = model.encode_texts([query.text for query in queries])
        alpha = model.config.similarity.alpha
        scores = similarity_matrix(texts, images, "smooth_chamfer", alpha=alpha)
        return cls(queries, scores.float().cpu().numpy())

    def __len__(self) -> int:
        return int(self.scores.shape[1])


def sample(query: LabelledQuery, size: int, rng: np.random.Generator) -> Int[np.ndarray, " images"]:
    """Random images of a collection, one of them relevant to the query if any is."""
    images = rng.permutation(len(query.relevant))[:size]
    if query.own is not None:
        images[0] = query.own
    elif query.relevant.any():
        images[0] = rng.choice(np.flatnonzero(query.relevant))
    return images


def sample_wrong(
    query: LabelledQuery, size: int, rng: np.random.Generator
) -> Int[np.ndarray, " images"]:
    """Random images of a collection, none of them relevant to the query."""
    return rng.permutation(np.flatnonzero(~query.relevant))[:size]


def parts(count: int, rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """Rows of images for fitting, in collections of at most `COLLECTION`, and for testing."""
    rows = rng.permutation(count)
    tested = min(max(count // 5, 10), COLLECTION)
    collections = math.ceil((count - tested) / COLLECTION)
    return np.array_split(rows[tested:], collections), rows[:tested]
