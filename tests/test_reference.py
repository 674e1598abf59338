"""Whole encoders of the released code, read through `Model.from_reference`."""

import argparse
import json
import pickle

import numpy as np
import pytest
import torch
from support import load_fixture

from diverset import Model
from diverset.data.vocabulary import Vocabulary
from diverset.errors import CheckpointError, OptionError, VocabularyError

NUMBERS = load_fixture("encoders")
ARGS = {"temperature": 8.0, "spm_txt_pos_enc_type": "sine", "dropout": 0.1, "data_name": "x"}


def state(iterations=4, prefix=""):
    weights = {}
    for key, value in NUMBERS.items():
        if not key.startswith("sd."):
            continue
        name = prefix + key.removeprefix("sd.")
        weights[name] = value
        for t in range(1, iterations):
            weights[name.replace("layers.0.", f"layers.{t}.")] = value
    return weights


@pytest.fixture
def files(tmp_path):
    words = ["<pad>", "<start>", "<end>", "<unk>"] + [f"word{n}" for n in range(46)]
    vocabulary = {"word2idx": {w: i for i, w in enumerate(words)}, "idx2word": words, "idx": 50}
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))

    def write(content):
        torch.save(content, tmp_path / "model.pth.tar")
        return tmp_path / "model.pth.tar", tmp_path / "vocab.json"

    return write


def checkpoint(weights):
    args = argparse.Namespace(**ARGS)
    return {"args": args, "epoch": 3, "best_score": 1.5, "model": weights}


@pytest.mark.parametrize("prefix", ["", "module."])
def test_encoders_equal_the_released_code_whatever_the_batch(files, prefix):
    model = Model.from_reference(*files(checkpoint(state(prefix=prefix))))
    images = model.encode_images(NUMBERS["in.img"], NUMBERS["in.img_len"])
    texts = model.encode_texts(NUMBERS["in.txt"], NUMBERS["in.txt_len"])
    for found, side in ((images, "img"), (texts, "txt")):
        expected = NUMBERS[f"out.{side}_set_alone_unpadded"]
        torch.testing.assert_close(found, expected, atol=2e-6, rtol=0)
    assert model.architecture.similarity.alpha == 8.0


def test_attention_of_unpadded_samples_equals_the_released_code(files):
    model = Model.from_reference(*files(checkpoint(state())))
    found = model.image_encoder(
        torch_padded(NUMBERS["in.img"], NUMBERS["in.img_len"]), with_attention=True
    )
    for t, attention in enumerate(found.attention, start=1):
        expected = NUMBERS[f"out.attn_img_t{t}"]
        torch.testing.assert_close(attention[:2], expected[:2], atol=2e-6, rtol=0)


def torch_padded(values, lengths):
    from diverset import Padded

    return Padded.from_lengths(values, lengths)


def test_training_mode_equals_the_released_code_where_nothing_is_padded(files):
    """Batch statistics of the released code include padding; counted as regions they agree."""
    model = Model.from_reference(*files(checkpoint(state()))).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    images = model.image_encoder(torch_padded(NUMBERS["in.img"], [9, 9, 9, 9])).elements
    texts = model.text_encoder(torch_padded(NUMBERS["in.txt"], NUMBERS["in.txt_len"])).elements
    torch.testing.assert_close(images[:2], NUMBERS["train.img_set"][:2], atol=2e-6, rtol=0)
    torch.testing.assert_close(texts[:1], NUMBERS["train.txt_set"][:1], atol=2e-6, rtol=0)


def test_an_imported_model_can_be_saved(files, tmp_path):
    model = Model.from_reference(*files(checkpoint(state(iterations=2))))
    assert model.architecture.image_set.iterations == 2
    model.save_pretrained(tmp_path / "saved")
    assert Model.from_pretrained(tmp_path / "saved").fingerprint() == model.fingerprint()


def test_heads_are_a_choice(files):
    path, vocabulary = files(checkpoint(state()))
    four, one = (Model.from_reference(path, vocabulary, heads=heads) for heads in (4, 1))
    regions = NUMBERS["in.img"][:1]
    assert not torch.allclose(four.encode_images(regions), one.encode_images(regions))
    with pytest.raises(OptionError, match="heads is 5, which does not divide the inner width 64"):
        Model.from_reference(path, vocabulary, heads=5)


def test_without_a_vocabulary_ids_can_be_read(files):
    model = Model.from_reference(files(checkpoint(state()))[0])
    assert model.encode_texts(NUMBERS["in.txt"]).shape == (5, 4, 32)


class Harmful:
    def __reduce__(self):
        return print, ("this must not run",)


def test_a_harmful_checkpoint_runs_nothing(files, capsys):
    with pytest.raises(CheckpointError, match="nothing of it was run"):
        Model.from_reference(*files(checkpoint(state()) | {"extra": Harmful()}))
    assert "must not run" not in capsys.readouterr().out


def test_a_harmful_vocabulary_runs_nothing(files, tmp_path, capsys):
    path, _ = files(checkpoint(state()))
    (tmp_path / "vocab.pkl").write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(VocabularyError, match="builtins.print"):
        Model.from_reference(path, tmp_path / "vocab.pkl")
    assert "must not run" not in capsys.readouterr().out


def test_truncated_missing_and_foreign_files(files, tmp_path):
    path, vocabulary = files(checkpoint(state()))
    content = path.read_bytes()
    for size in (0, 10, len(content) // 2, len(content) - 100):
        path.write_bytes(content[:size])
        with pytest.raises(CheckpointError, match="model.pth.tar"):
            Model.from_reference(path, vocabulary)
    with pytest.raises(CheckpointError, match="cannot read .*nowhere.pth.tar"):
        Model.from_reference(tmp_path / "nowhere.pth.tar", vocabulary)
    for foreign in ({"state_dict": {}}, [1, 2], {"model": {"bert.weight": torch.ones(2)}}):
        with pytest.raises(CheckpointError, match="model.pth.tar"):
            Model.from_reference(*files(foreign))


def test_another_models_parts_are_named(files):
    weights = state()
    weights["img_enc.cnn.conv1.weight"] = torch.ones(1)
    with pytest.raises(CheckpointError, match="img_enc.cnn.conv1.weight"):
        Model.from_reference(*files(checkpoint(weights)))
    weights = state()
    del weights["txt_enc.rnn.bias_hh_l0"]
    with pytest.raises(CheckpointError, match="text_encoder.features.gru.bias_hh_l0"):
        Model.from_reference(*files(checkpoint(weights)))


def test_untied_iterations_are_refused(files):
    weights = state()
    weights["img_enc.spm.agg_block.layers.2.0.fn.to_q.weight"] = torch.zeros(64, 32)
    with pytest.raises(CheckpointError, match="do not share img_enc.spm.agg_block.layers.0.0.fn"):
        Model.from_reference(*files(checkpoint(weights)))


def test_a_vocabulary_of_another_size_is_refused(files):
    path, _ = files(checkpoint(state()))
    with pytest.raises(CheckpointError, match="50 words, the vocabulary has 5"):
        Model.from_reference(path, Vocabulary.build(["dog"], 1))


def test_the_mask_word_that_the_released_code_adds_is_added(files):
    path, vocabulary = files(checkpoint(state()))
    words = list(Vocabulary.load(vocabulary))
    model = Model.from_reference(path, Vocabulary(words[:49]))
    assert len(model.vocabulary) == 50 and model.vocabulary["<mask>"] == 49


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("eval_similarity", "mp", "eval_similarity = 'mp'"),
        ("txt_pooling", "max", "txt_pooling = 'max'"),
        ("denominator", 1.0, "denominator = 1.0"),
        ("spm_img_pos_enc_type", "sine", "spm_img_pos_enc_type = 'sine'"),
        ("temperature", "x", "temperature .* is 'x', not a number"),
    ],
)
def test_arguments_that_would_change_the_numbers_are_refused(files, name, value, says):
    content = checkpoint(state())
    setattr(content["args"], name, value)
    with pytest.raises(CheckpointError, match=says):
        Model.from_reference(*files(content))


def test_arguments_that_are_understood(files):
    content = checkpoint(state())
    content["args"] = {"temperature": 4.0, "eval_similarity": "max", "img_res_pool": "avg"}
    chosen = Model.from_reference(*files(content)).architecture
    assert chosen.similarity.kind == "mil" and chosen.image.pooling == "average"
    content["args"] = None
    assert Model.from_reference(*files(content)).architecture.similarity.alpha == 16.0


def test_numbers_saved_by_numpy_are_data(files):
    content = checkpoint(state()) | {"best_score": np.float64(3.0), "epoch": np.int64(2)}
    Model.from_reference(*files(content))


def test_each_side_has_its_own_iterations_without_holes(files):
    weights = state()
    for name in [n for n in weights if n.startswith("img_enc") and "layers.3." in n]:
        del weights[name]
    chosen = Model.from_reference(*files(checkpoint(weights))).architecture
    assert (chosen.image_set.iterations, chosen.text_set.iterations) == (3, 4)
    for name in [n for n in weights if n.startswith("img_enc") and "layers.1." in n]:
        del weights[name]
    with pytest.raises(CheckpointError, match=r"iterations \[0, 2\] in img_enc"):
        Model.from_reference(*files(checkpoint(weights)))


@pytest.mark.parametrize(
    "broken",
    [
        lambda w: w.update({"img_enc.fc.weight": torch.ones(3)}),
        lambda w: w.update({"img_enc.spm.agg_block.latents": torch.tensor(1.0)}),
        lambda w: [w.pop(n) for n in list(w) if n.startswith("txt_enc") and "to_q" in n],
        lambda w: [w.pop(n) for n in list(w) if "net.0" in n],
        lambda w: w.update({7: torch.ones(1)}),
        lambda w: w.update({"img_enc.fc.bias": torch.full((32,), torch.nan)}),
    ],
)
def test_broken_weights_give_a_typed_error(files, broken):
    weights = state()
    broken(weights)
    with pytest.raises(CheckpointError, match="model.pth.tar"):
        Model.from_reference(*files(checkpoint(weights)))


def test_old_files_without_a_batch_counter(files):
    weights = state()
    del weights["img_enc.mlp.bn.bn.num_batches_tracked"]
    Model.from_reference(*files(checkpoint(weights)))
