"""Asking a library: from words and pictures to matches with reasons and probabilities."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float

from diverset.errors import InputError, OptionError
from diverset.index import SetIndex
from diverset.index.base import Hit, Metadata, Sets
from diverset.index.checks import is_storable
from diverset.index.explain import contributions_of
from diverset.library.library import Library
from diverset.search.calibration import BEST, COMPANY, Calibration, load_calibration
from diverset.search.filtering import check_filter
from diverset.search.query import (
    ALSO,
    JUDGE,
    MAIN,
    WITHOUT,
    Asked,
    Clause,
    Combined,
    check_count,
)

SAMPLE = 1000  # sets that stand for the collection
Elements = Float[np.ndarray, "slots dim"]


@dataclass(frozen=True)
class Match:
    """One hit.

    Attributes:
        id: path of a picture, or table and row of a text.
        score: what it is ranked by.
        probability: how likely it is right; None where the question is not words alone, or the
            model has no calibration.
        metadata: what is known of it.
        contributions: which elements of the question matched which of the hit (Eq. 8).
        element: the element of the hit that matched best, from 0.
    """

    id: str
    score: float
    probability: float | None
    metadata: Metadata
    contributions: Float[np.ndarray, "query_slots slots"] = field(repr=False)
    element: int


@dataclass(frozen=True)
class Answer:
    """Matches, best first, and whether the best one is good enough to be believed.

    Attributes:
        matches: in the order of their scores.
        cutoff: the probability from which one is believed.
        by_probability: whether that is also the order of their probabilities. It is not where
            several things count: then these only tell how well all the words fit as one text.
    """

    matches: list[Match]
    cutoff: float
    by_probability: bool = False

    @property
    def matches_well(self) -> bool:
        """False where a text was asked for and not even the best hit is likely right."""
        known = [one.probability for one in self.matches if one.probability is not None]
        return bool(self.matches) and (not known or max(known) >= self.cutoff)


class Searcher:
    """Searches a library.

    Args:
        library: opened.
        calibration: instead of the one of the library's model.
    """

    def __init__(self, library: Library, calibration: Calibration | None = None) -> None:
        self.library = library
        about = library.about
        self.calibration = calibration or load_calibration(about["model"], about["fingerprint"])
        self._samples: dict[int, Sets] = {}

    def search(
        self, asked: Asked, picture: Elements | None = None, rule: str = "similarity"
    ) -> Answer:
        """The pictures that answer a question, with a picture's set beside the words or not."""
        index = self.library.pictures
        check_filter(asked.where, index)
        clauses = self._clauses(asked, picture, rule)
        combined = Combined(clauses, self._sample(index, clauses), self._alpha)
        k = max(asked.k, BEST, COMPANY)
        plain = len(clauses) == 1 and clauses[0].is_plain
        if plain:
            hits = index.search(clauses[0].elements[None], k, asked.where)[0]
        else:
            hits = index.search_by(combined.elements, combined, k, asked.where)
        judge = None if picture is not None else len(clauses) - 1 if len(clauses) > 1 else 0
        items = index.count(asked.where) if judge is not None else 0
        matches = self._matches(hits, combined, judge, items)
        likely = [one.probability for one in matches if one.probability is not None]
        cutoff = self.calibration.cutoff_for(np.array(likely)) if self.calibration else 0.0
        return Answer(matches[: asked.k], cutoff, by_probability=plain and bool(likely))

    def similar(
        self, picture: Elements, k: int = 20, where: str | None = None, element: int | None = None
    ) -> Answer:
        """Pictures like one, or with something in them like one element of it."""
        if element is None:
            return self.search(Asked(k=k, where=where), picture)
        if not 0 <= element < len(picture):
            raise OptionError(
                f"part {element + 1} was asked for; a picture has 1 to {len(picture)}"
            )
        return self.search(Asked(k=k, where=where), picture[element][None], rule="part")

    def captions(self, picture: Elements, k: int = 10) -> Answer:
        """The texts of the library nearest to a picture."""
        check_count(k)
        if not self.library.texts.count():
            raise InputError("the library has no texts; add some with: diverset index captions.csv")
        combined = Combined(
            [Clause(picture)], np.zeros((0, 1, picture.shape[1]), np.float32), self._alpha
        )
        hits = self.library.texts.search(picture[None], k)[0]
        return Answer(self._matches(hits, combined), 0.0)

    def of_words(self, words: Sequence[str]) -> Sets:
        """The sets of texts."""
        for one in words:
            if not one.strip():
                raise InputError("there are no words to search for; give some, or a picture")
            if not is_storable(one):
                raise InputError(f"the words {one!r} are not UTF-8; check the terminal's encoding")
        return self.library.model.encode_texts(list(words)).float().cpu().numpy()

    def of_picture(self, path: str | Path, data: bytes | None = None) -> Elements:
        """The set of a picture: the stored one where the file is indexed, else encoded now."""
        full = os.path.abspath(path)
        if data is None and self.library.indexed(full):
            stored = self.library.pictures.get([full])
            if stored.ids:
                found: Elements = stored.sets[0]
                return found
        encoder = self.library.encoder
        encoded: Elements = encoder.encode([encoder.open(path, data)])[0]
        return encoded

    @cached_property
    def _alpha(self) -> float:
        return self.library.pictures.settings.alpha

    def _clauses(self, asked: Asked, picture: Elements | None, rule: str) -> list[Clause]:
        words = [asked.words] if asked.words.strip() else []
        if not words and picture is None:
            raise InputError("there is nothing to search for; give words or a picture")
        if asked.coverage and asked.weights:
            raise OptionError("coverage takes the element that is met worst, so weights do nothing")
        if not 0 <= asked.balance <= 1:
            raise OptionError(f"balance is {asked.balance}; give a number from 0 to 1")
        # Several things are believed by what they are together: a part of a picture that has more
        # to show is less like each of them alone.
        whole = [" and ".join([*words, *asked.also])] if words and picture is None else []
        texts = [*words, *asked.also, *asked.without, *whole]
        roles = [MAIN] * len(words) + [ALSO] * len(asked.also) + [WITHOUT] * len(asked.without)
        sets = list(self.of_words(texts)) if texts else []
        clauses = [
            Clause(one, role)
            for one, role in zip(sets, [*roles, *([JUDGE] * len(whole))], strict=True)
        ]
        if words:
            clauses[0] = replace(
                clauses[0],
                rule="coverage" if asked.coverage else "similarity",
                weights=np.array(asked.weights, dtype=np.float64) if asked.weights else None,
                share=asked.balance if picture is not None else 1.0,
            )
        if picture is not None:
            share = 1 - asked.balance if words else 1.0
            clauses.insert(0, Clause(picture, rule=rule, share=share))
        plain = len(clauses) == 2 and clauses[1].role == JUDGE and clauses[0].is_plain
        return clauses[:1] if plain else clauses

    def _sample(self, index: SetIndex, clauses: Sequence[Clause]) -> Sets:
        """Sets that stand for the collection; none where one clause needs no scale."""
        if len(clauses) == 1:
            return np.zeros((0, 1, index.settings.dim), dtype=np.float32)
        now = index.count()
        if now not in self._samples:
            self._samples = {now: index.sample(SAMPLE)}
        return self._samples[now]

    def _matches(
        self, hits: Sequence[Hit], combined: Combined, judge: int | None = None, items: int = 0
    ) -> list[Match]:
        """Hits with reasons by the first clause, and probabilities by the judging one.

        `items` is how many there were to choose from.
        """
        if not hits:
            return []
        cosines = np.stack([hit.cosines for hit in hits])
        likely: Sequence[float | None] = [None] * len(hits)
        if judge is not None and self.calibration is not None:
            judged = combined.each(cosines)[judge]
            likely = self.calibration.probabilities(judged, max(items, len(hits))).tolist()
        shares = contributions_of(cosines[:, : combined.ends[0]], self._alpha)
        return [
            Match(hit.id, hit.score, one, hit.metadata, share, int(share.sum(axis=0).argmax()))
            for hit, one, share in zip(hits, likely, shares, strict=True)
        ]
