"""Which images of a batch a text also describes, although it was written for another image.

A text is related to an image if the image's captions and labels contain all its content words.
Short texts such as "a dog" are related to many images; treating these as negatives would be wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

from diverset.data import CaptionDataset
from diverset.errors import import_extra

STOP_WORDS = frozenset(
    """a an and are at by down for from her his in is it its of on one or some that the their there
    this three to two up with""".split()
)
PEOPLE = frozenset(
    """baby boy child girl guy kid lady man men player rider skateboarder skier snowboarder surfer
    woman women people""".split()
)


class RelatedTexts:
    """Sparse bags of words of the images and texts of a split.

    Args:
        dataset: captions and labels of the images.
        texts: all texts that batches draw from.
    """

    def __init__(self, dataset: CaptionDataset, texts: Sequence[str]) -> None:
        sparse: Any = import_extra("scipy.sparse", "train")
        labels = dataset.labels or ((),) * len(dataset)
        images = (
            set().union(*map(image_words, chain(dataset.captions_of(image), labels[image])))
            for image in range(len(dataset))
        )
        # A word that no image has is a word of its own, so that it matches no image.
        numbers: dict[str, int] = {}
        rows = [
            [numbers.setdefault(word, len(numbers)) for word in words]
            for words in chain(images, map(content_words, texts))
        ]
        columns = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
        starts = np.cumsum([0, *map(len, rows)])
        bags = sparse.csr_matrix((np.ones(len(columns), dtype=np.int32), columns, starts))
        self._images, self._texts = bags[: len(dataset)], bags[len(dataset) :]
        self._counts: NDArray[np.int32] = self._texts.getnnz(axis=1)

    def of_batch(
        self, images: Int[Tensor, " images"], texts: Int[Tensor, " texts"]
    ) -> Bool[Tensor, "images texts"]:
        """True where a text is related to an image; rows of the split."""
        image_rows, text_rows = images.cpu().numpy(), texts.cpu().numpy()
        shared = (self._images[image_rows] @ self._texts[text_rows].T).toarray()
        counts = self._counts[text_rows]
        related = (shared >= counts) & (counts > 0)
        return torch.from_numpy(related).to(images.device)


def content_words(text: str) -> set[str]:
    """The words of a text in the singular, without stop words.

    >>> sorted(content_words("Two dogs on the grass"))
    ['dog', 'grass']
    """
    words = re.findall(r"[a-z]+", text.lower())
    return {_singular(word) for word in words if word not in STOP_WORDS}


def image_words(text: str) -> set[str]:
    """The words of a text of an image, and what they imply: a man is also a person.

    >>> sorted(image_words("a man"))
    ['man', 'person']
    """
    words = content_words(text)
    return words | {"person"} if words & PEOPLE else words


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
