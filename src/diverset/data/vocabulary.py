"""Words and their ids."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from diverset.data.pickled_vocabulary import read_pickled
from diverset.data.tokens import tokenize
from diverset.errors import InputError, VocabularyError, a_few

PAD, START, END, UNK = 0, 1, 2, 3
SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")


class Vocabulary:
    """Word to id and back; ids 0 to 3 are padding, start, end and unknown.

    >>> vocabulary = Vocabulary.build(["a dog", "a cat"], min_count=2)
    >>> vocabulary.encode("a dog"), len(vocabulary)
    ([1, 4, 3, 2], 5)

    Args:
        entries: all words in the order of their ids, the special ones first.
    """

    def __init__(self, entries: Iterable[str]) -> None:
        self._words = tuple(entries)
        if self._words[: len(SPECIAL)] != SPECIAL:
            raise VocabularyError(
                f"the first words are {a_few(self._words, 4) or 'missing'}; ids 0 to 3 must be "
                f"{', '.join(SPECIAL)}"
            )
        self._ids = {word: number for number, word in enumerate(self._words)}
        if len(self._ids) != len(self._words):
            ((word, _),) = Counter(self._words).most_common(1)
            raise VocabularyError(f"duplicate word {word!r} in the vocabulary; remove one")

    @classmethod
    def build(cls, captions: Iterable[str], min_count: int = 4) -> Vocabulary:
        """Take the words that occur at least `min_count` times, the most frequent first."""
        counts = Counter(word for caption in captions for word in tokenize(caption))
        # Ties are sorted, so that the order of the captions does not change the ids.
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return cls([*SPECIAL, *(word for word, count in ranked if count >= min_count)])

    @classmethod
    def load(cls, path: str | Path) -> Vocabulary:
        """Read a JSON file {word2idx, idx2word, idx}, or a pickle of a class that has these.

        A pickle is read without executing its code; other objects in it are rejected.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise VocabularyError(
                f"cannot read the vocabulary {path}: {error.strerror}; check the path"
            ) from error
        if content.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            try:
                state = json.loads(content)
            except (ValueError, RecursionError) as error:
                raise VocabularyError(
                    f"{path} is not complete JSON ({error}); copy it again"
                ) from error
        else:
            state = read_pickled(path, content)
        return cls(_entries(path, state))

    def save(self, path: str | Path) -> None:
        """Write the JSON file that `load` reads."""
        content = {"word2idx": self._ids, "idx2word": self._words, "idx": len(self)}
        Path(path).write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")

    def encode(self, text: str) -> list[int]:
        """The ids of a text: start, its words, end. Unknown words become 3."""
        ids = [self[word] for word in tokenize(text)]
        if not ids:
            raise InputError(f"the text {text!r} has no words; give at least one")
        return [START, *ids, END]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """The words of these ids, without padding, start and end."""
        return [self._words[number] for number in ids if number not in (PAD, START, END)]

    def __getitem__(self, word: str) -> int:
        return self._ids.get(word, UNK)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __len__(self) -> int:
        return len(self._words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self._words == other._words

    def __hash__(self) -> int:
        return hash(self._words)


def _entries(path: str | Path, state: Mapping[str, Any]) -> list[str]:
    """The words in the order of their ids, after checking that both directions agree."""
    ids, by_id = state.get("word2idx"), state.get("idx2word")
    if not isinstance(ids, Mapping) or not isinstance(by_id, Mapping | Sequence):
        raise VocabularyError(f"{path} has no word2idx and idx2word; is it a vocabulary?")
    if isinstance(by_id, Mapping):
        # JSON turns the ids, which are keys here, into strings.
        named = {str(number): word for number, word in by_id.items()}
        by_id = [named.get(str(number)) for number in range(len(named))]
    for number, word in enumerate(by_id):
        if not isinstance(word, str):
            raise VocabularyError(
                f"{path} has {word!r} for id {number}; ids must count up from 0, each with a word"
            )
    wrong = [word for number, word in enumerate(by_id) if ids.get(word) != number]
    wrong = wrong or sorted(map(str, ids.keys() - set(by_id)))
    if wrong:
        raise VocabularyError(
            f"word2idx and idx2word of {path} disagree about {a_few(wrong)}; build it again"
        )
    if state.get("idx", len(by_id)) != len(by_id):
        raise VocabularyError(
            f"{path} has idx {state['idx']!r}, but {len(by_id)} words; build it again"
        )
    return list(by_id)
