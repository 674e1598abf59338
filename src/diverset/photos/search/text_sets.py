"""Embedding sets of texts: encoded together, the most recent ones cached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from jaxtyping import Float

from diverset.errors import InputError
from diverset.index.filter_language import is_storable
from diverset.index.set_store import Sets

CACHED = 1000  # texts, a few KB each
Elements = Float[np.ndarray, "slots dim"]  # the embedding set of one text or image


class TextSets:
    """The sets of texts; threads may share it.

    `encode` computes those of several texts at once.

    >>> texts = TextSets(lambda texts: np.ones((len(texts), 1, 2)))
    >>> texts.encode_all(["a dog", "snow"])
    >>> texts("a dog").shape
    (1, 2)
    """

    def __init__(self, encode: Callable[[Sequence[str]], Sets]) -> None:
        self._encode = encode
        self._sets: dict[str, Elements] = {}  # the least recently used one first
        self._lock = threading.Lock()
        self._encoding = threading.Lock()  # waited for by those that need the network

    def __call__(self, text: str) -> Elements:
        """The set of a text."""
        elements = self._cached(text)
        return self._encoded([text])[0] if elements is None else elements

    def encode_all(self, texts: Iterable[str]) -> None:
        """Encode those texts together that are not cached; invalid ones are left out."""
        new = [text for text in dict.fromkeys(texts) if problem(text) is None]
        new = [text for text in new if self._cached(text) is None]
        if new:
            self._encoded(new)

    def _cached(self, text: str) -> Elements | None:
        with self._lock:
            elements = self._sets.pop(text, None)
            if elements is not None:
                self._sets[text] = elements  # used last
            return elements

    def _encoded(self, texts: Sequence[str]) -> Sets:
        for text in texts:
            if reason := problem(text):
                raise InputError(reason)
        with self._encoding:
            sets = self._encode(texts)
        with self._lock:
            self._sets.update(zip(texts, sets, strict=True))
            for oldest in list(self._sets)[: max(0, len(self._sets) - CACHED)]:
                del self._sets[oldest]
        return sets


def problem(text: str) -> str | None:
    """Why a text cannot be searched for; None if it can."""
    if not text.strip():
        return "the text is empty; give a text or an image"
    if not is_storable(text):
        return f"the text {text!r} is not UTF-8; check the terminal's encoding"
    return None
