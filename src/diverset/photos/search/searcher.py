"""Searching a library: from text and images to hits with explanations and probabilities."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from jaxtyping import Float

from diverset.errors import InputError, OptionError
from diverset.evaluation.calibration import Calibration, Confidence, load_calibration
from diverset.index.explain import contributions
from diverset.index.filter_language import Filter
from diverset.index.set_store import Hit, Sets
from diverset.model.spec import parse_spec
from diverset.photos.library.library import Library
from diverset.photos.search.copies import Copies
from diverset.photos.search.filtering import photo_filter
from diverset.photos.search.groups import group
from diverset.photos.search.hints import Speller, exclusion_hint
from diverset.photos.search.probabilities import hit_probabilities
from diverset.photos.search.query import CombinedScore, SearchQuery, make_clauses
from diverset.photos.search.result import SearchHit, SearchResult
from diverset.photos.search.scoring import Cosines
from diverset.photos.search.text_sets import Elements, TextSets
from diverset.runtime.threads import torch_threads

SINGLE_TOKEN = 3  # tokens of a word that is one token, with start and end
CONFIDENCE_HITS = 10  # best hits that decide the confidence, however many are returned
SAMPLE = 1000  # sets by which the scores of several clauses are standardised
NOTHING_LIKE_THIS = "probably nothing like this here"
BATCH_SIZES = (1, 2, 4, 8, 12, 16, 24, 32)  # of texts
ENCODED_ON_ONE_THREAD = 64  # texts; encoding more at once is worth several threads


@dataclass(frozen=True)
class PreparedSearch:
    """A query whose texts are encoded, and whose filter is parsed."""

    query: SearchQuery
    filter: Filter | None
    score: CombinedScore
    count: int  # of different images to rank
    fetch_count: int  # of hits to fetch from the index first: also those that are left out


class Searcher:
    """Searches an opened library.

    Args:
        library: to search.
        calibration: of the probabilities; by default that of its model.
        precision: in which texts are encoded. "bfloat16" converts the weights first, which takes
            longer than encoding a few texts.
    """

    def __init__(
        self,
        library: Library,
        calibration: Calibration | None = None,
        precision: str = "float32",
    ) -> None:
        self.library, self.precision = library, precision
        info = library.info
        self.alpha: float = info["alpha"]
        self.calibration = calibration or load_calibration(
            parse_spec(info["model"]).name, info["fingerprint"]
        )
        self.encode_text = TextSets(self._encode_texts)
        counts = self.calibration.words if self.calibration else {}
        self._speller = Speller(counts, self._is_word)
        self._samples: dict[int, Sets] = {}
        self._copies: dict[tuple[int, int], Copies] = {}

    def search(
        self, query: SearchQuery, image: Elements | None = None, element: int | None = None
    ) -> SearchResult:
        """Images that match a query, an image, or both.

        Args:
            query: its text may be empty beside an image.
            image: set of an image that the hits should resemble.
            element: compare only this element of the image, with the nearest of each hit.
        """
        return self.complete(self.prepare(query, image, element))

    def prepare(
        self, query: SearchQuery, image: Elements | None = None, element: int | None = None
    ) -> PreparedSearch:
        """A query with everything that is needed to rank images; arguments as in `search`."""
        index = self.library.images
        filter = photo_filter(query.filter, index) if query.filter is not None else None
        clauses = make_clauses(query, self.encode_text, image, element)
        sample = self._sample() if len(clauses) > 1 else None
        score = CombinedScore(clauses, sample, self.alpha, self.calibration)
        left_out = 0 if query.leave_out is None else 1 + len(self.copies().others(query.leave_out))
        count = max(query.offset + query.k, CONFIDENCE_HITS)
        return PreparedSearch(query, filter, score, count, count + left_out)

    def complete(
        self, prepared: PreparedSearch, fetched: Sequence[Hit] | None = None
    ) -> SearchResult:
        """The result of a search; `fetched` are its `fetch_count` best hits, if known."""
        query, score = prepared.query, prepared.score
        ranked = self._folded_hits(prepared, fetched)
        copies = self.copies()
        total = copies.count(self.library.images, prepared.filter, query.leave_out)
        probabilities: Float[np.ndarray, " hits"] | None = None
        confidence: Confidence | None = None
        if self.calibration and query.texts and ranked:
            probabilities, confidence = hit_probabilities(
                self.calibration, query, score, _cosines(ranked), max(total, len(ranked))
            )
        hits = _describe(ranked, score.contributions, probabilities, copies)
        hits = hits[query.offset : query.offset + query.k]
        if query.min_probability is not None:
            hits = self._probable(hits, query.min_probability)
        return SearchResult(hits, confidence, self._note(query, confidence), total)

    def _note(self, query: SearchQuery, confidence: Confidence | None) -> str | None:
        """What a person should know about the hits."""
        notes = [NOTHING_LIKE_THIS] if confidence == "weak" else []
        for text in query.texts:
            notes += filter(None, (exclusion_hint(text), self._speller.hint(text)))
        return "; ".join(notes) or None

    def _is_word(self, word: str) -> bool:
        """Whether the tokenizer of the model has a token for a word."""
        model = self.library.text_model
        if not model.config.text.backbone:
            return False
        return int(model.text_backbone().tokenize([word]).mask.sum()) <= SINGLE_TOKEN

    def captions(self, image: Elements, k: int = 10) -> SearchResult:
        """The texts of the library that match an image best."""
        if not self.library.texts.count():
            raise InputError("the library has no texts; add some with: diverset index captions.csv")
        [hits] = self.library.texts.search(image[None], k)
        described = _describe(hits, partial(contributions, alpha=self.alpha))
        return SearchResult(described, total=self.library.texts.count())

    def _probable(self, hits: Sequence[SearchHit], least: float) -> list[SearchHit]:
        """Hits with at least this probability."""
        if any(hit.probability is None for hit in hits):
            raise OptionError(
                "a search by image alone has no probabilities; leave out the minimum probability"
                if self.calibration
                else "the model has no calibration, so hits have no probabilities; fit one with: "
                "diverset calibrate"
            )
        return [hit for hit in hits if (hit.probability or 0.0) >= least]

    def groups(self, hits: Sequence[SearchHit]) -> list[list[SearchHit]]:
        stored = self.library.images.get([hit.id for hit in hits])
        sets = dict(zip(stored.ids, stored.sets, strict=True))
        present = [hit for hit in hits if hit.id in sets]  # the others were deleted meanwhile
        elements = [sets[hit.id][hit.element] for hit in present]
        return [[present[rank] for rank in ranks] for ranks in group(elements)]

    def _encode_texts(self, texts: Sequence[str]) -> Sets:
        few = len(texts) <= ENCODED_ON_ONE_THREAD
        with torch_threads(1) if few else nullcontext():
            sets = self.library.text_model.encode_texts(
                texts if self.precision == "float32" else _of_known_size(texts),
                precision=self.precision,
            )
        return sets[: len(texts)].float().cpu().numpy()

    def encode_image(self, path: str | Path) -> Elements:
        """The set of an image: the stored one if the file is indexed, else encoded now."""
        full = os.path.abspath(path)
        if self.library.indexed_file(full):
            stored = self.library.images.get([full])
            if stored.ids:
                elements: Elements = stored.sets[0]
                return elements
        encoder = self.library.encoder
        encoded: Elements = encoder.encode([encoder.preprocess.pixels(encoder.open(path))])[0]
        return encoded

    def copies(self) -> Copies:
        """Files with identical content; read again when the catalog has changed."""
        state = self.library.catalog.state
        if state not in self._copies:
            self._copies = {state: Copies(self.library.catalog.identical_files())}
        return self._copies[state]

    def _folded_hits(self, prepared: PreparedSearch, hits: Sequence[Hit] | None) -> list[Hit]:
        """The best hits of different content."""
        copies, count = self.copies(), prepared.fetch_count
        while True:
            if hits is None:
                hits = self._hits(prepared.score, count, prepared.filter)
            folded = copies.fold(hits, prepared.query.leave_out)
            if len(folded) >= prepared.count or len(hits) < count:
                return folded[: prepared.count]
            count, hits = 2 * count, None  # many of them are copies

    def _hits(self, score: CombinedScore, k: int, filter: Filter | None) -> list[Hit]:
        if score.is_plain:
            return self.library.images.search(score.elements[None], k, filter)[0]
        return self.library.images.search_by(score.elements, score, k, filter)

    def _sample(self) -> Sets:
        """Random sets of the collection; drawn again when its size changes."""
        count = self.library.images.count()
        if count not in self._samples:
            self._samples = {count: self.library.images.sample(SAMPLE)}
        return self._samples[count]


def _describe(
    hits: Sequence[Hit],
    explain: Callable[[Cosines], Cosines],
    probabilities: Float[np.ndarray, " hits"] | None = None,
    copies: Copies | None = None,
) -> list[SearchHit]:
    """Hits with the contributions of their elements to the score that ranked them."""
    if not hits:
        return []
    return [
        SearchHit(
            hit.id,
            hit.score,
            None if probabilities is None else float(probabilities[rank]),
            hit.metadata,
            pairs,
            copies.others(hit.id) if copies else (),
        )
        for rank, (hit, pairs) in enumerate(zip(hits, explain(_cosines(hits)), strict=True))
    ]


def _cosines(hits: Sequence[Hit]) -> Cosines:
    return np.stack([hit.cosines for hit in hits])


def _of_known_size(texts: Sequence[str]) -> list[str]:
    """Texts, of which the last is repeated up to one of a few sizes.

    torch compiles and keeps a bfloat16 kernel for every shape, which takes hundreds of megabytes
    where batches of all sizes occur.

    >>> _of_known_size(["a", "b", "c"])
    ['a', 'b', 'c', 'c']
    """
    size = next((size for size in BATCH_SIZES if size >= len(texts)), len(texts))
    return [*texts, *[texts[-1]] * (size - len(texts))]
