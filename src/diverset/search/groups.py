"""Hits in groups by the element that matched: what is alike in the matched part stands together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

ALIKE = 0.8  # cosine from which two elements say the same


def group(
    elements: Float[np.ndarray, "hits dim"], most: int = 4, alike: float = ALIKE
) -> list[list[int]]:
    """Places of hits in groups, in the order of each group's best.

    The first hit leads the first group; the hit least like any leader leads the next, until all
    are alike or there are enough groups.

    Args:
        elements: of each hit, in the order of the answer, the element that matched.
        most: groups at most.
        alike: hits with a cosine above this to a leader open no new group.

    >>> group(np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]]))
    [[0, 2], [1]]
    """
    if not len(elements):
        return []
    leaders = [0]
    while len(leaders) < most:
        nearest = (elements @ elements[leaders].T).max(axis=1)
        if nearest.min() >= alike:
            break
        leaders.append(int(nearest.argmin()))
    owners = (elements @ elements[leaders].T).argmax(axis=1)
    found = [np.flatnonzero(owners == at).tolist() for at in range(len(leaders))]
    return sorted((one for one in found if one), key=lambda one: one[0])


def matched_elements(
    sets: Sequence[Float[np.ndarray, "slots dim"]], places: Sequence[int]
) -> Float[np.ndarray, "hits dim"]:
    """The matched element of each hit."""
    return np.stack([one[place] for one, place in zip(sets, places, strict=True)])
