import collections
import json
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from diverset.data import Vocabulary
from diverset.data import vocabulary as module
from diverset.errors import InputError, VocabularyError

WORDS = [*module.SPECIAL, "a", "dog", "naïve"]


class Runs:
    def __init__(self, target: Any, *arguments: Any) -> None:
        self.call = (target, arguments)

    def __reduce__(self) -> Any:
        return self.call


def state(**changes: Any) -> dict[str, Any]:
    numbered = dict(enumerate(WORDS))
    return {
        "word2idx": {word: number for number, word in numbered.items()},
        "idx2word": numbered,
        "idx": len(WORDS),
        **changes,
    }


def pickled(content: dict[str, Any], protocol: int = 2) -> bytes:
    """A pickle as other projects wrote it; their module is gone when it is read."""
    foreign = types.ModuleType("vocab")
    foreign.Vocabulary = type("Vocabulary", (), {"__module__": "vocab"})
    instance = foreign.Vocabulary()
    vars(instance).update(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "vocab", foreign)
        return pickle.dumps(instance, protocol)


def test_build_orders_words_by_frequency_then_alphabet():
    built = Vocabulary.build(["b a a", "A b. c"], min_count=2)
    assert list(built) == [*module.SPECIAL, "a", "b"]
    assert list(Vocabulary.build(["A b. c", "b a a"], min_count=2)) == list(built)
    assert len(Vocabulary.build(["x x x y y y y"])) == 5


def test_decode_reverses_encode():
    vocabulary = Vocabulary(WORDS)
    ids = vocabulary.encode("A dog barks")
    assert ids == [module.START, 4, 5, module.UNK, module.END]
    assert vocabulary.decode([*ids, module.PAD]) == ["a", "dog", "<unk>"]
    assert "dog" in vocabulary and "cat" not in vocabulary
    for text in ("", " \n"):
        with pytest.raises(InputError, match="no words"):
            vocabulary.encode(text)


def test_saved_vocabulary_is_loaded(tmp_path: Path):
    Vocabulary(WORDS).save(tmp_path / "words.json")
    content = json.loads((tmp_path / "words.json").read_text(encoding="utf-8"))
    assert content.keys() == {"word2idx", "idx2word", "idx"}
    assert Vocabulary.load(tmp_path / "words.json") == Vocabulary(WORDS)
    assert hash(Vocabulary(WORDS)) == hash(Vocabulary.load(tmp_path / "words.json"))


@pytest.mark.parametrize("by_id", [WORDS, {str(i): word for i, word in enumerate(WORDS)}])
def test_idx2word_may_be_a_list_or_a_mapping(tmp_path: Path, by_id: Any):
    file = tmp_path / "words.json"
    file.write_text("\ufeff" + json.dumps(state(idx2word=by_id)), encoding="utf-8")
    assert list(Vocabulary.load(file)) == WORDS


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"idx2word": None}, "no word2idx and idx2word"),
        ({"idx": 99}, "has idx 99, but 7 words"),
        ({"idx2word": [*WORDS[:-1], 5]}, "has 5 for id 6"),
        ({"idx2word": {"0": "<pad>", "2": "<end>"}}, "has None for id 1"),
        ({"word2idx": {**state()["word2idx"], "dog": 4}}, "disagree about 'dog'"),
        ({"word2idx": {**state()["word2idx"], "cat": 7}}, "disagree about 'cat'"),
    ],
)
def test_contradicting_json_is_rejected(tmp_path: Path, changes: dict[str, Any], message: str):
    file = tmp_path / "words.json"
    file.write_text(json.dumps(state(**changes)))
    with pytest.raises(VocabularyError, match=message):
        Vocabulary.load(file)


def test_invalid_vocabularies_are_rejected(tmp_path: Path):
    with pytest.raises(VocabularyError, match="'a', 'b'; ids 0 to 3 must be <pad>"):
        Vocabulary(["a", "b"])
    with pytest.raises(VocabularyError, match="duplicate word 'dog'"):
        Vocabulary([*WORDS, "dog"])
    with pytest.raises(VocabularyError, match="absent.json"):
        Vocabulary.load(tmp_path / "absent.json")
    (tmp_path / "cut.json").write_text(json.dumps(state())[:30])
    with pytest.raises(VocabularyError, match="cut.json is not complete JSON"):
        Vocabulary.load(tmp_path / "cut.json")


@pytest.mark.parametrize("protocol", range(6))
def test_pickle_of_another_project_is_read(tmp_path: Path, protocol: int):
    counted = collections.defaultdict(dict, state()["word2idx"])
    ordered = collections.OrderedDict(state()["idx2word"])
    content = state(word2idx=counted, idx2word=ordered, seen={"x"})
    (tmp_path / "v.pkl").write_bytes(pickled(content, protocol))
    assert list(Vocabulary.load(tmp_path / "v.pkl")) == WORDS


def test_pickle_of_a_dictionary_is_read(tmp_path: Path):
    (tmp_path / "v.pkl").write_bytes(pickle.dumps(state()))
    assert list(Vocabulary.load(tmp_path / "v.pkl")) == WORDS


@pytest.mark.parametrize(
    ("target", "name"),
    [(eval, "eval"), (getattr, "getattr"), (Path.touch, "getattr")],
)
def test_code_in_a_pickle_is_not_executed(tmp_path: Path, target: Any, name: str):
    mark = tmp_path / "ran"
    attack = Runs(target, f"open({str(mark)!r}, 'w')" if target is eval else mark)
    (tmp_path / "v.pkl").write_bytes(pickled(state(extra=attack)))
    with pytest.raises(VocabularyError, match=f"v.pkl refers to .*{name}.*nothing was executed"):
        Vocabulary.load(tmp_path / "v.pkl")
    assert not mark.exists()


def test_dotted_names_in_a_pickle_are_rejected(tmp_path: Path):
    # A dotted name would reach an attribute of an allowed class.
    (tmp_path / "v.pkl").write_bytes(b"\x80\x04\x8c\x08builtins\x8c\x0ddict.fromkeys\x93.")
    with pytest.raises(VocabularyError, match="builtins.dict.fromkeys"):
        Vocabulary.load(tmp_path / "v.pkl")


@pytest.mark.parametrize("content", [b"", b"\x80\x02}", b"plain text", b"\x80\x7f."])
def test_file_that_is_not_a_pickle_is_named(tmp_path: Path, content: bytes):
    (tmp_path / "v.pkl").write_bytes(content)
    with pytest.raises(VocabularyError, match="v.pkl is neither JSON nor a complete pickle"):
        Vocabulary.load(tmp_path / "v.pkl")


def test_pickle_of_another_type_is_rejected(tmp_path: Path):
    (tmp_path / "v.pkl").write_bytes(pickle.dumps(["a"]))
    with pytest.raises(VocabularyError, match="holds a list, not a vocabulary"):
        Vocabulary.load(tmp_path / "v.pkl")


def test_old_pickle_protocols_create_only_a_vocabulary(tmp_path: Path):
    harmful = b"ccopy_reg\n_reconstructor\n(c__builtin__\ndict\nc__builtin__\nobject\nNtR."
    (tmp_path / "v.pkl").write_bytes(harmful)
    with pytest.raises(VocabularyError, match="which no vocabulary needs"):
        Vocabulary.load(tmp_path / "v.pkl")
