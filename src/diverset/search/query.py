"""What can be asked: words, a picture, both, all of several things, without others.

A question is a few clauses, each of them an embedding set. One clause is ranked by its similarity.
Several are brought to one scale by their mean and spread over a sample of the collection: words and
picture are averaged, of things that must all be there the worst counts, and what must not be there
is subtracted as far as it stands out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float

from diverset.errors import OptionError
from diverset.index.base import Sets
from diverset.search.scoring import Cosines, Scores, score

MAIN, ALSO, WITHOUT, JUDGE = "main", "also", "without", "judge"


@dataclass(frozen=True)
class Asked:
    """A question as people ask it.

    Attributes:
        words: what the picture should show.
        also: further things that must all be there.
        without: things that should not.
        where: a filter over metadata (`diverset.index.where`).
        k: how many hits.
        coverage: rank by the element of the words' set that is met worst.
        weights: how much each element of the words' set counts; all the same if empty.
        balance: how much the words count beside a picture, from 0 to 1.
    """

    words: str = ""
    also: Sequence[str] = ()
    without: Sequence[str] = ()
    where: str | None = None
    k: int = 20
    coverage: bool = False
    weights: Sequence[float] = ()
    balance: float = 0.5

    def __post_init__(self) -> None:
        check_count(self.k)


def check_count(k: int) -> None:
    """Raise unless so many hits can be asked for."""
    if k < 1:
        raise OptionError(f"{k} hits were asked for (-n); ask for 1 or more")


@dataclass(frozen=True)
class Clause:
    """One embedding set of a question, and how it counts.

    Attributes:
        elements: the set.
        role: `MAIN`, `ALSO`, `WITHOUT`, or `JUDGE` for one that ranks nothing, by which hits are
            believed or not.
        rule: a name in `diverset.search.scoring.RULES`.
        weights: of its elements.
        share: among the main clauses.
    """

    elements: Float[np.ndarray, "slots dim"]
    role: str = MAIN
    rule: str = "similarity"
    weights: Scores | None = None
    share: float = 1.0

    def score(self, cosines: Cosines, alpha: float) -> Scores:
        return score(cosines, alpha, self.rule, self.weights)

    @property
    def is_plain(self) -> bool:
        """Whether the index's own search ranks by it."""
        return self.rule == "similarity" and self.weights is None


class Combined:
    """Several clauses as one rule over the cosines of all their elements.

    Args:
        clauses: at least one of them `MAIN`.
        sample: sets of the collection, for means and spreads.
        alpha: of smooth-Chamfer.
    """

    def __init__(self, clauses: Sequence[Clause], sample: Sets, alpha: float) -> None:
        self.clauses, self.alpha = clauses, alpha
        self.elements = np.concatenate([one.elements for one in clauses])
        self.ends = np.cumsum([len(one.elements) for one in clauses])
        cosines = np.einsum("qd,nsd->nqs", self.elements, sample, optimize=True)
        scores = self.each(cosines) if len(sample) else np.zeros((len(clauses), 1))
        self.mean, self.std = scores.mean(axis=1), scores.std(axis=1) + 1e-6

    def each(self, cosines: Cosines) -> Float[np.ndarray, "clauses items"]:
        """The score of every clause."""
        parts = np.split(cosines, self.ends[:-1], axis=1)
        return np.stack(
            [one.score(part, self.alpha) for one, part in zip(self.clauses, parts, strict=True)]
        )

    def __call__(self, cosines: Cosines) -> Scores:
        if len(self.clauses) == 1:
            return self.clauses[0].score(cosines, self.alpha)
        scaled = (self.each(cosines) - self.mean[:, None]) / self.std[:, None]
        by_role = partial(self._of_role, scaled)
        main, shares = by_role(MAIN)
        found: Scores = (shares[:, None] * main).sum(axis=0) / shares.sum()
        for one in by_role(ALSO)[0]:
            found = np.minimum(found, one)
        for one in by_role(WITHOUT)[0]:
            found = found - np.maximum(one, 0)
        return found

    def _of_role(self, scaled: np.ndarray, role: str) -> tuple[np.ndarray, np.ndarray]:
        chosen = [at for at, one in enumerate(self.clauses) if one.role == role]
        return scaled[chosen], np.array([self.clauses[at].share for at in chosen])
