"""Hits in groups by the element that matched: hits with similar matched elements go together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

SAME_CONTENT = 0.8  # cosine from which two elements count as the same content
MAX_GROUPS = 4


def group(
    elements: Sequence[Float[np.ndarray, " dim"]] | Float[np.ndarray, "hits dim"],
    max_groups: int = MAX_GROUPS,
) -> list[list[int]]:
    """Ranks of hits in groups, ordered by the best rank in each group.

    The first hit leads the first group; the hit least similar to all leaders leads the next one,
    until every hit is similar to a leader or there are enough groups.

    `elements` holds the element that matched, of each hit in the order of the ranking.

    >>> group(np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]]))
    [[0, 2], [1]]
    """
    if not len(elements):
        return []
    matched = np.stack(list(elements))
    leaders = [0]
    while len(leaders) < max_groups:
        nearest = (matched @ matched[leaders].T).max(axis=1)
        if nearest.min() >= SAME_CONTENT:
            break
        leaders.append(int(nearest.argmin()))
    leader_of = (matched @ matched[leaders].T).argmax(axis=1)
    groups = [np.flatnonzero(leader_of == leader).tolist() for leader in range(len(leaders))]
    return sorted((ranks for ranks in groups if ranks), key=lambda ranks: ranks[0])
