"""Which slot of an image matched which words of its captions.

A caption is matched by the slot with the largest contribution to the similarity (Eq. 8). The weight
of a word is how much the cosine with this slot falls if the word is left out of the caption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from diverset.index.explain import contributions
from diverset.model import Model

Box = Sequence[float]
"""Left, top, right and bottom, as fractions of the image side."""


@dataclass(frozen=True)
class SlotMatch:
    """A caption, the slot that matched it, and the words that it matched.

    Attributes:
        caption: the text.
        slot: counted from 0.
        share: contribution of the slot to the similarity, 0 to 1.
        weights: one per word, 0 to 1; the largest is 1 unless no word matters.
    """

    caption: str
    slot: int
    share: float
    weights: tuple[float, ...]


def match_captions(
    model: Model,
    image_set: Float[Tensor, "slots dim"],
    captions: Sequence[str],
    text_sets: Float[Tensor, "captions elements dim"],
) -> list[SlotMatch]:
    """Match the captions of an image with its slots."""
    matches = []
    for caption, text_set in zip(captions, text_sets, strict=True):
        shares = slot_shares(image_set, text_set, model.config.similarity.alpha)
        slot = int(shares.argmax())
        weights = word_weights(model, caption, image_set[slot])
        matches.append(SlotMatch(caption, slot, float(shares[slot]), weights))
    return matches


def slot_shares(
    image_set: Float[Tensor, "slots dim"], text_set: Float[Tensor, "elements dim"], alpha: float
) -> Float[np.ndarray, " slots"]:
    """The contribution of every slot to the similarity of two sets; they sum to one."""
    cosines = (text_set @ image_set.T).numpy()
    shares: np.ndarray = contributions(cosines[None], alpha)[0].sum(axis=0)
    return shares


def word_weights(model: Model, caption: str, element: Float[Tensor, " dim"]) -> tuple[float, ...]:
    """How much the best cosine with an element falls without each word, relative to the most."""
    words = caption.split()
    shorter = [" ".join(words[:i] + words[i + 1 :]) for i in range(len(words))]
    texts = model.encode_texts([caption, *shorter])
    cosines = (texts @ element).amax(dim=1)
    falls = (cosines[0] - cosines[1:]).clamp_min(0)
    return tuple((falls / falls.max().clamp_min(1e-6)).tolist())


def points_into(slot_map: Float[Tensor, "rows columns"], box: Box) -> bool:
    """Whether the slot attends most to a cell inside the box.

    >>> import torch
    >>> points_into(torch.tensor([[0.1, 0.9], [0.2, 0.3]]), (0.5, 0.0, 1.0, 0.5))
    True
    """
    rows, columns = slot_map.shape
    row, column = divmod(int(slot_map.argmax()), columns)
    x, y = (column + 0.5) / columns, (row + 0.5) / rows
    left, top, right, bottom = box
    return left <= x <= right and top <= y <= bottom
