"""Search queries: text, an image, both, several required texts, excluded texts.

A query becomes a few clauses, each with an embedding set. One clause is ranked by its similarity.
Several are standardised by their mean and standard deviation over a sample of the collection.
Required texts count as one joint text, written in both orders ("dog snow", "snow dog"), and in
addition the text that matches least counts: a joint text alone often finds only one of the things,
the least text alone finds images with a trace of each. Text and image are averaged.

With excluded texts and a calibrated model, images are ranked by the probability that they show the
rest of the query and nothing that is excluded. Other models subtract excluded texts as far as they
are a standard deviation above average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from diverset.errors import InputError, OptionError, check_count
from diverset.evaluation.calibration import Calibration
from diverset.index.set_store import Sets
from diverset.photos.element_numbers import check_element
from diverset.photos.search import scoring
from diverset.photos.search.scoring import Cosines, Scores
from diverset.photos.search.text_sets import Elements

IMAGE, TEXT, JOINT, EXCLUDED, UNRANKED = "image", "text", "joint", "excluded", "unranked"
CALIBRATED = JOINT, UNRANKED, TEXT  # roles with probabilities; the first that a query has counts
LEAST = 0.25  # weight of the text that matches least, beside the joint text
FREE = 1.0  # standard deviations above average from which an excluded text counts
STRICT = 1.0  # added to log-odds of excluded texts: people exclude what hits of the rest often show


@dataclass(frozen=True)
class SearchQuery:
    """What a user searches for.

    Attributes:
        text: what the image should show.
        required: further texts that must all match.
        excluded: texts that must not match.
        filter: over metadata (`diverset.photos.search.filtering`).
        k: number of hits.
        coverage: score by the least-matched element of the text.
        weights: of the elements of the text's set; equal if empty.
        balance: weight of the text beside an image, from 0 to 1.
        min_probability: leave out hits that are less probable.
        offset: number of best hits that are left out, for the next page of hits.
        leave_out: path of an image that is not a hit, nor are its copies: the queried one.
    """

    text: str = ""
    required: Sequence[str] = ()
    excluded: Sequence[str] = ()
    filter: str | None = None
    k: int = 20
    coverage: bool = False
    weights: Sequence[float] = ()
    balance: float = 0.5
    min_probability: float | None = None
    offset: int = 0
    leave_out: str | None = None

    def __post_init__(self) -> None:
        check_count("k", self.k)
        if self.offset < 0:
            raise OptionError(f"the offset is {self.offset}; give 0 or more")
        if self.coverage and self.weights:
            raise OptionError(
                "coverage scores by the least-matched element, so weights have no effect; give "
                "only one of them"
            )
        if not 0 <= self.balance <= 1:
            raise OptionError(f"balance is {self.balance}; give a number from 0 to 1")
        if self.min_probability is not None and not 0 <= self.min_probability <= 1:
            raise OptionError(
                f"the minimum probability is {self.min_probability}; give a number from 0 to 1"
            )

    @property
    def has_text(self) -> bool:
        return bool(self.text.strip())

    @property
    def texts(self) -> tuple[str, ...]:
        """The main and the required texts."""
        return (*((self.text,) if self.has_text else ()), *self.required)

    @property
    def joint_texts(self) -> tuple[str, ...]:
        """All of these texts as one, in both orders; one if there is one."""
        orders = (self.texts, self.texts[::-1])
        return tuple(dict.fromkeys(" ".join(texts) for texts in orders))

    @property
    def encoded_texts(self) -> tuple[str, ...]:
        """All texts whose sets the search needs."""
        joint = self.joint_texts if len(self.texts) > 1 else ()
        return (*self.texts, *joint, *self.excluded)


@dataclass(frozen=True)
class Clause:
    """One embedding set of a query, and how it counts.

    The role is `IMAGE`; `TEXT` for the main and each required text; `JOINT` for all of them as one
    text, in one order; `EXCLUDED`; or `UNRANKED` for a text that does not rank: its similarity is
    calibrated, because scores by coverage or weights are not.
    """

    elements: Elements
    role: str = TEXT
    coverage: bool = False  # score by the least-matched element instead of smooth-Chamfer
    element_weights: Float[np.ndarray, " slots"] | None = None  # of smooth-Chamfer; None: equal
    weight: float = 1.0  # of the image, or of all texts
    text: str = ""  # whose set it is, for a calibration

    def score(self, cosines: Cosines, alpha: float) -> Scores:
        if self.coverage:
            return scoring.coverage(cosines)
        return scoring.weighted_smooth_chamfer(cosines, alpha, self.element_weights)

    def contributions(self, cosines: Cosines, alpha: float) -> Cosines:
        """The gradient of the score with respect to the cosines (Eq. 8)."""
        if self.coverage:
            return scoring.coverage_gradient(cosines)
        return scoring.weighted_smooth_chamfer_gradient(cosines, alpha, self.element_weights)

    @property
    def is_plain(self) -> bool:
        """Whether this is smooth-Chamfer as in the paper, with equal weights."""
        return not self.coverage and self.element_weights is None


def make_clauses(
    query: SearchQuery,
    encode_text: Callable[[str], Elements],
    image: Elements | None = None,
    element: int | None = None,
) -> list[Clause]:
    """The clauses of a query; `element` is the only one of the image that counts."""
    texts = query.texts
    if not texts and image is None:
        raise InputError("there is nothing to search for; give a text or an image")

    def text_clause(text: str, role: str, weight: float = 1.0) -> Clause:
        return Clause(encode_text(text), role, weight=weight, text=text)

    weight = 1.0 if image is None else query.balance
    clauses = [text_clause(text, TEXT, weight) for text in texts]
    if query.has_text and (query.coverage or query.weights):
        weights = np.array(query.weights, np.float64) if query.weights else None
        clauses[0] = replace(clauses[0], coverage=query.coverage, element_weights=weights)
        if len(texts) == 1:
            clauses.append(text_clause(query.text, UNRANKED))
    if len(texts) > 1:
        clauses += [text_clause(text, JOINT, weight) for text in query.joint_texts]
    clauses += [text_clause(text, EXCLUDED) for text in query.excluded]
    if image is not None:
        if element is not None:
            check_element(element, len(image))
            image = image[[element]]
        weight = 1 - query.balance if texts else 1.0
        clauses.insert(0, Clause(image, IMAGE, coverage=element is not None, weight=weight))
    return clauses


class CombinedScore:
    """Several clauses, of which one is `IMAGE` or `TEXT`, as one score of all their cosines."""

    def __init__(
        self,
        clauses: Sequence[Clause],
        sample: Sets | None,  # of the collection, for means and deviations; None for one clause
        alpha: float,
        calibration: Calibration | None = None,  # by which excluded texts count
    ) -> None:
        self.clauses, self.alpha, self.calibration = clauses, alpha, calibration
        self.elements = np.concatenate([clause.elements for clause in clauses])
        self._ends = np.cumsum([len(clause.elements) for clause in clauses])
        self._mean, self._std = np.zeros(len(clauses)), np.ones(len(clauses))
        if sample is not None and len(sample):
            cosines = np.einsum("qd,nsd->nqs", self.elements, sample, optimize=True)
            scores = self.per_clause(cosines)
            self._mean, self._std = scores.mean(axis=1), scores.std(axis=1) + 1e-6

    @property
    def is_plain(self) -> bool:
        """Whether the ranking is that of the index's own search."""
        return len(self.clauses) == 1 and self.clauses[0].is_plain

    def per_clause(self, cosines: Cosines) -> Float[np.ndarray, "clauses items"]:
        """The score of every clause."""
        parts = zip(self.clauses, self._split(cosines), strict=True)
        return np.stack([clause.score(part, self.alpha) for clause, part in parts])

    def __call__(self, cosines: Cosines) -> Scores:
        scores = self.per_clause(cosines)
        scaled = (scores - self._mean[:, None]) / self._std[:, None]
        combined: Scores = (self._weights(scaled) * scaled).sum(axis=0)
        excluded = self._rows(EXCLUDED)
        if len(excluded) and self.calibration and len(self.calibrated_rows()):
            return self._log_probability(combined, scores[excluded], self.calibration)
        for of_text in scaled[excluded]:
            combined = combined - np.maximum(of_text - FREE, 0)
        return combined

    def calibrated_rows(self) -> Int[np.ndarray, " rows"]:
        """Clauses whose similarities have probabilities: all texts as one; none for an image."""
        return next((rows for rows in map(self._rows, CALIBRATED) if len(rows)), self._rows(TEXT))

    def _rows(self, role: str) -> Int[np.ndarray, " rows"]:
        return np.flatnonzero([clause.role == role for clause in self.clauses])

    def _log_probability(
        self,
        combined: Scores,
        excluded: Float[np.ndarray, "texts items"],
        calibration: Calibration,
    ) -> Scores:
        """The logarithm of the probability of the rest of the query and of nothing excluded.

        The standardised score of the rest is read as a similarity to its texts as one.
        """
        rows = self.calibrated_rows()
        similarity = self._mean[rows].mean() + self._std[rows].mean() * combined
        logits = calibration.logits(similarity, self.clauses[rows[0]].text)
        score: Scores = -np.logaddexp(0, -logits)
        for row, of_text in zip(self._rows(EXCLUDED), excluded, strict=True):
            logits = calibration.logits(of_text, self.clauses[row].text) + STRICT
            score = score - np.logaddexp(0, logits)
        return score

    def contributions(self, cosines: Cosines) -> Cosines:
        """The gradient of the score with respect to the cosines, scaled to a sum of one.

        Excluded texts are left out: they explain why other images are not hits.
        """
        if self.is_plain:  # its gradient sums to one, whatever its weight
            return self.clauses[0].contributions(cosines, self.alpha)
        scaled = (self.per_clause(cosines) - self._mean[:, None]) / self._std[:, None]
        weights = self._weights(scaled) / self._std[:, None]
        parts = [
            weight[:, None, None] * clause.contributions(part, self.alpha)
            for weight, clause, part in zip(
                weights, self.clauses, self._split(cosines), strict=True
            )
        ]
        joined = np.concatenate(parts, axis=1)
        shares: Cosines = joined / joined.sum(axis=(1, 2), keepdims=True)
        return shares

    def _weights(
        self, scaled: Float[np.ndarray, "clauses items"]
    ) -> Float[np.ndarray, "clauses items"]:
        """The weight of every clause in the score of each item; zero for those that do not rank."""
        roles = np.array([clause.role for clause in self.clauses])
        own = np.array([clause.weight for clause in self.clauses])[:, None]
        weights = np.where(roles == IMAGE, 1.0, 0.0)[:, None] * own * np.ones_like(scaled)
        texts = np.flatnonzero(roles == TEXT)
        if len(texts):
            least = texts[scaled[texts].argmin(axis=0)]
            weights[least, np.arange(scaled.shape[1])] = own[least, 0]
            if JOINT in roles:
                weights[texts] *= LEAST / (1 + LEAST)
                joint = roles == JOINT
                weights[joint] = own[joint] / joint.sum() / (1 + LEAST)
        total: Float[np.ndarray, "clauses items"] = weights / weights.sum(axis=0)
        return total

    def _split(self, cosines: Cosines) -> list[Cosines]:
        return np.split(cosines, self._ends[:-1], axis=1)
