"""Checkpoints of the released code, loaded by `Model.from_reference`."""

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
def test_sets_equal_the_released_code(files, prefix):
    model = Model.from_reference(*files(checkpoint(state(prefix=prefix))))
    images = model.encode_images(NUMBERS["in.img"], NUMBERS["in.img_len"])
    texts = model.encode_texts(NUMBERS["in.txt"], NUMBERS["in.txt_len"])
    for sets, side in ((images, "img"), (texts, "txt")):
        expected = NUMBERS[f"out.{side}_set_alone_unpadded"]
        torch.testing.assert_close(sets, expected, atol=2e-6, rtol=0)
    assert model.config.similarity.alpha == 8.0


def test_attention_of_unpadded_samples_equals_the_released_code(files):
    model = Model.from_reference(*files(checkpoint(state())))
    sets = model.image_encoder(
        padded(NUMBERS["in.img"], NUMBERS["in.img_len"]), with_attention=True
    )
    for t, attention in enumerate(sets.attention, start=1):
        expected = NUMBERS[f"out.attn_img_t{t}"]
        torch.testing.assert_close(attention[:2], expected[:2], atol=2e-6, rtol=0)


def padded(values, lengths):
    from diverset import Padded

    return Padded.from_lengths(values, lengths)


def test_training_mode_equals_the_released_code_where_nothing_is_padded(files):
    """Batch statistics of the released code include padding; counted as regions they agree."""
    model = Model.from_reference(*files(checkpoint(state()))).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    images = model.image_encoder(padded(NUMBERS["in.img"], [9, 9, 9, 9])).elements
    texts = model.text_encoder(padded(NUMBERS["in.txt"], NUMBERS["in.txt_len"])).elements
    torch.testing.assert_close(images[:2], NUMBERS["train.img_set"][:2], atol=2e-6, rtol=0)
    torch.testing.assert_close(texts[:1], NUMBERS["train.txt_set"][:1], atol=2e-6, rtol=0)


def test_an_imported_model_can_be_saved(files, tmp_path):
    model = Model.from_reference(*files(checkpoint(state(iterations=2))))
    assert model.config.image_set.iterations == 2
    model.save_pretrained(tmp_path / "saved")
    assert Model.from_pretrained(tmp_path / "saved").fingerprint() == model.fingerprint()


def test_the_number_of_heads_is_an_option(files):
    path, vocabulary = files(checkpoint(state()))
    four, one = (Model.from_reference(path, vocabulary, heads=heads) for heads in (4, 1))
    regions = NUMBERS["in.img"][:1]
    assert not torch.allclose(four.encode_images(regions), one.encode_images(regions))
    with pytest.raises(OptionError, match="heads is 5; give a divisor of the inner width 64"):
        Model.from_reference(path, vocabulary, heads=5)


def test_without_a_vocabulary_word_ids_are_encoded(files):
    model = Model.from_reference(files(checkpoint(state()))[0])
    assert model.encode_texts(NUMBERS["in.txt"]).shape == (5, 4, 32)


class Harmful:
    def __reduce__(self):
        return print, ("this must not run",)


def test_a_harmful_checkpoint_runs_nothing(files, capsys):
    with pytest.raises(CheckpointError, match="none of its code was run"):
        Model.from_reference(*files(checkpoint(state()) | {"extra": Harmful()}))
    assert "must not run" not in capsys.readouterr().out


def test_a_harmful_vocabulary_runs_nothing(files, tmp_path, capsys):
    path, _ = files(checkpoint(state()))
    (tmp_path / "vocab.pkl").write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(VocabularyError, match="builtins.print"):
        Model.from_reference(path, tmp_path / "vocab.pkl")
    assert "must not run" not in capsys.readouterr().out


def test_truncated_missing_and_foreign_files_are_explained(files, tmp_path):
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


def test_missing_and_unexpected_weights_are_named(files):
    weights = state()
    weights["img_enc.cnn.conv1.weight"] = torch.ones(1)
    with pytest.raises(CheckpointError, match="contains a CNN"):
        Model.from_reference(*files(checkpoint(weights)))
    weights = state()
    weights["img_enc.residual_last_fc.weight"] = torch.ones(1)
    with pytest.raises(CheckpointError, match="unexpected keys 'img_enc.residual_last_fc.weight'"):
        Model.from_reference(*files(checkpoint(weights)))
    weights = state()
    del weights["txt_enc.rnn.bias_hh_l0"]
    with pytest.raises(CheckpointError, match="text_encoder.features.gru.bias_hh_l0"):
        Model.from_reference(*files(checkpoint(weights)))


def test_iterations_with_different_weights_are_rejected(files):
    weights = state()
    weights["img_enc.spm.agg_block.layers.2.0.fn.to_q.weight"] = torch.zeros(64, 32)
    with pytest.raises(CheckpointError, match="do not share img_enc.spm.agg_block.layers.0.0.fn"):
        Model.from_reference(*files(checkpoint(weights)))


def test_a_vocabulary_of_another_size_is_rejected(files):
    path, _ = files(checkpoint(state()))
    with pytest.raises(CheckpointError, match="50 words, the vocabulary has 5"):
        Model.from_reference(path, Vocabulary.build(["dog"], 1))


def test_the_mask_word_is_added_as_in_the_released_code(files):
    path, vocabulary = files(checkpoint(state()))
    words = list(Vocabulary.load(vocabulary))
    model = Model.from_reference(path, Vocabulary(words[:49]))
    assert len(model.vocabulary) == 50 and model.vocabulary["<mask>"] == 49


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("eval_similarity", "mp", "eval_similarity = 'mp'"),
        ("txt_pooling", "max", "txt_pooling = 'max'"),
        ("denominator", 1.0, "denominator = 1.0"),
        ("spm_img_pos_enc_type", "sine", "spm_img_pos_enc_type = 'sine'"),
        ("temperature", "x", "temperature .* is 'x'; it must be a number"),
    ],
)
def test_unsupported_training_arguments_are_rejected(files, name, value, message):
    content = checkpoint(state())
    setattr(content["args"], name, value)
    with pytest.raises(CheckpointError, match=message):
        Model.from_reference(*files(content))


def test_similarity_and_pooling_are_read_from_the_arguments(files):
    content = checkpoint(state())
    content["args"] = {"temperature": 4.0, "eval_similarity": "max", "img_res_pool": "avg"}
    config = Model.from_reference(*files(content)).config
    assert config.similarity.kind == "mil" and config.image.pooling == "average"
    content["args"] = None
    assert Model.from_reference(*files(content)).config.similarity.alpha == 16.0


def test_numpy_numbers_in_a_checkpoint_are_accepted(files):
    content = checkpoint(state()) | {"best_score": np.float64(3.0), "epoch": np.int64(2)}
    Model.from_reference(*files(content))


def test_iterations_are_counted_per_side_and_must_be_complete(files):
    weights = state()
    for name in [n for n in weights if n.startswith("img_enc") and "layers.3." in n]:
        del weights[name]
    config = Model.from_reference(*files(checkpoint(weights))).config
    assert (config.image_set.iterations, config.text_set.iterations) == (3, 4)
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
def test_invalid_weights_raise_a_checkpoint_error(files, broken):
    weights = state()
    broken(weights)
    with pytest.raises(CheckpointError, match="model.pth.tar"):
        Model.from_reference(*files(checkpoint(weights)))


def test_files_of_old_torch_versions_without_a_batch_counter_load(files):
    weights = state()
    del weights["img_enc.mlp.bn.bn.num_batches_tracked"]
    Model.from_reference(*files(checkpoint(weights)))


def random_gru(hidden, generator, width=20):
    shapes = {"weight_ih": (3 * hidden, width), "weight_hh": (3 * hidden, hidden)}
    shapes |= {"bias_ih": (3 * hidden,), "bias_hh": (3 * hidden,)}
    return {
        f"txt_enc.rnn.{name}_l0{side}": torch.randn(shape, generator=generator) / 4
        for side in ("", "_reverse")
        for name, shape in shapes.items()
    }


def pvse_state(size=2, dim=32, word_width=20):
    """Encoders of the fixture with the set module of PVSE, under the released code's names."""
    generator = torch.Generator().manual_seed(0)
    weights = {name: value for name, value in state(1).items() if ".spm." not in name}
    for side, width in (("img_enc", dim), ("txt_enc", word_width)):
        shapes = {
            "attention.w_1.weight": (width // 2, width),
            "attention.w_2.weight": (size, width // 2),
            "fc.weight": (dim, width),
            "fc.bias": (dim,),
            "layer_norm.weight": (dim,),
            "layer_norm.bias": (dim,),
        }
        for name, shape in shapes.items():
            weights[f"{side}.spm.{name}"] = torch.randn(shape, generator=generator)
    return weights | random_gru(dim // 2, generator)


def gru_step(weights, suffix, state, word):
    """PyTorch's GRU equations, for one word."""
    names = ("weight_ih", "bias_ih", "weight_hh", "bias_hh")
    w, b, u, c = (weights[f"txt_enc.rnn.{name}_l0{suffix}"] for name in names)
    reset, update, new = (w @ word + b).chunk(3)
    reset_h, update_h, new_h = (u @ state + c).chunk(3)
    update = torch.sigmoid(update + update_h)
    new = torch.tanh(new + torch.sigmoid(reset + reset_h) * new_h)
    return (1 - update) * new + update * state


def pie_net(weights, side, local, pooled):
    """The elements of PVSE, l2-normalised: one attention over the inputs per element."""
    hidden, scores, fc, bias, gain, shift = (
        weights[f"{side}.spm.{name}"]
        for name in (
            "attention.w_1.weight", "attention.w_2.weight",
            "fc.weight", "fc.bias", "layer_norm.weight", "layer_norm.bias",
        )
    )  # fmt: skip
    elements = []
    for score in scores:
        attention = torch.softmax(torch.tanh(local @ hidden.T) @ score, dim=0)
        element = pooled + torch.sigmoid(fc @ (attention @ local) + bias)
        element = (element - element.mean()) / (element.var(correction=0) + 1e-5).sqrt()
        element = element * gain + shift
        elements.append(element / element.norm())
    return torch.stack(elements)


@pytest.mark.parametrize("prefix", ["", "module."])
def test_the_released_codes_pvse_equals_its_equations(files, prefix):
    weights = pvse_state()
    content = checkpoint({prefix + name: value for name, value in weights.items()})
    model = Model.from_reference(*files(content))
    assert model.config.image_set.kind == model.config.text_set.kind == "pie_net"
    assert model.config.image_set.size == 2 and model.config.text.merge == "concatenate"
    texts = model.encode_texts(NUMBERS["in.txt"], NUMBERS["in.txt_len"])
    for row, length in enumerate(NUMBERS["in.txt_len"].tolist()):
        words = weights["txt_enc.embed.weight"][NUMBERS["in.txt"][row, :length]]
        forward = backward = torch.zeros(16)
        for word in words:
            forward = gru_step(weights, "", forward, word)
        for word in words.flip(0):
            backward = gru_step(weights, "_reverse", backward, word)
        expected = pie_net(weights, "txt_enc", words, torch.cat([forward, backward]))
        torch.testing.assert_close(texts[row], expected, atol=1e-5, rtol=0)
    images = model.encode_images(NUMBERS["in.img"], NUMBERS["in.img_len"])
    features = model.image_encoder.features(padded(NUMBERS["in.img"], NUMBERS["in.img_len"]))
    for row, length in enumerate(NUMBERS["in.img_len"].tolist()):
        local = features.local[row, :length].detach()
        expected = pie_net(weights, "img_enc", local, local.amax(dim=0))
        torch.testing.assert_close(images[row], expected, atol=1e-5, rtol=0)


def test_slots_over_a_concatenated_gru_are_read(files):
    weights = state() | random_gru(16, torch.Generator().manual_seed(1))
    model = Model.from_reference(*files(checkpoint(weights)))
    assert model.config.text.merge == "concatenate" and model.config.text_set.kind == "slots"
    gru = model.text_encoder.features.gru
    ids = NUMBERS["in.txt"][:1, : NUMBERS["in.txt_len"][0]]
    pooled = model.text_encoder.features(padded(ids, [ids.shape[1]])).pooled
    words = weights["txt_enc.embed.weight"][ids[0]]
    state_forward = torch.zeros(16)
    for word in words:
        state_forward = gru_step(weights, "", state_forward, word)
    assert gru.hidden_size == 16
    torch.testing.assert_close(pooled[0, :16], state_forward, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (random_gru(12, torch.Generator()), "the GRU in .* has 12 hidden units"),
        ({"txt_enc.spm.attention.w_1.weight": torch.ones(16, 32)}, "over the text in .* reads 32"),
        ({"txt_enc.spm.attention.w_2.weight": torch.ones(3)}, "misshapen keys 'text_encoder.sets"),
        ({"img_enc.spm.fc.weight": torch.ones(8, 32)}, "image_encoder.sets.fc.weight"),
        ({"txt_enc.bert.embeddings.weight": torch.ones(2)}, "contains BERT"),
        ({"img_enc.pie_net.fc.weight": torch.ones(2)}, "PVSE's own code"),
        ({"img_enc.spm.agg_block.latents": torch.ones(2, 2)}, "unexpected keys 'img_enc.spm.agg"),
    ],
)
def test_pvse_checkpoints_that_do_not_fit_are_explained(files, changes, message):
    with pytest.raises(CheckpointError, match=message):
        Model.from_reference(*files(checkpoint(pvse_state() | changes)))
