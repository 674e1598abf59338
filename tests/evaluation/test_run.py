"""Models on datasets of every format, and two models against each other."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_networks import small_cnn

from diverset import EvalOptions, Model, Vocabulary, compare, evaluate
from diverset.cli import main
from diverset.config import ImageConfig, ModelConfig, SetConfig, SimilarityConfig, TextConfig
from diverset.errors import DataError, OptionError
from diverset.evaluation.encoded import encode_models
from diverset.runtime.progress import Progress
from diverset.similarity import similarity_matrix

SPLITS = {"val": 4, "test": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One dataset in four formats: seven images with two captions each."""
    root = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    names = [split for split, count in SPLITS.items() for _ in range(count)]
    rows = [(f"{n}.png", f"caption {n} of {k}", names[n]) for n in range(7) for k in (1, 2)]
    for kind in ("table", "karpathy", "coco"):
        (root / kind / "images").mkdir(parents=True)
        for n in range(7):
            pixels = np.random.default_rng(n).integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / kind / "images" / f"{n}.png")
    lines = [",".join(row) for row in [("image", "caption", "split"), *rows]]
    (root / "table" / "captions.csv").write_text("\n".join(lines))
    entries = [
        {
            "filename": f"{n}.png",
            "split": names[n],
            "sentences": [{"raw": caption} for image, caption, _ in rows if image == f"{n}.png"],
        }
        for n in range(7)
    ]
    (root / "karpathy" / "dataset_small.json").write_text(json.dumps({"images": entries}))
    content = {
        "images": [{"id": n, "file_name": f"{n}.png"} for n in range(7)],
        "annotations": [
            {"id": i, "image_id": int(image[0]), "caption": caption}
            for i, (image, caption, _) in enumerate(rows)
        ],
    }
    (root / "coco" / "captions_small.json").write_text(json.dumps(content))
    np.save(root / "coco" / "val_ids.npy", np.arange(8))
    np.save(root / "coco" / "test_ids.npy", np.arange(8, 14))
    (root / "precomp").mkdir()
    for split in ("dev", "test"):
        regions = rng.standard_normal((4, 3, 6)).astype(np.float32)
        np.save(root / "precomp" / f"{split}_ims.npy", regions)
        captions = [f"caption {n}" for n in range(8)]
        (root / "precomp" / f"{split}_caps.txt").write_text("\n".join(captions))
    return root


@pytest.fixture(scope="module")
def model():
    words = Vocabulary.build([f"caption {n} of" for n in range(7)], 1)
    return Model(small_cnn(), words).eval()


@pytest.mark.parametrize(
    ("data", "split"),
    [
        ("table", "val"),
        ("table/captions.csv", "val"),
        ("karpathy", "val"),
        ("karpathy/dataset_small.json", "val"),
        ("coco", "val_ids.npy"),
        ("coco/captions_small.json", "val_ids.npy"),
    ],
)
def test_a_model_is_evaluated_on_any_format(folder, model, tmp_path, data, split):
    report = evaluate(model, EvalOptions(root=str(folder / data), split=split), cache=tmp_path)
    options = EvalOptions(root=str(folder / "table"), split="val")
    assert (report.n_images, report.n_captions) == (4, 8)
    assert report.rsum == evaluate(model, options, cache=tmp_path).rsum
    everything = EvalOptions(root=str(folder / data), split="all")
    assert evaluate(model, everything, cache=tmp_path).n_images == 7


def test_region_features_are_evaluated(folder, tmp_path):
    sets = SetConfig(size=2, inner_width=8)
    config = ModelConfig(8, ImageConfig(input_width=6), TextConfig(input_width=8), sets, sets)
    model = Model(config, Vocabulary.build(["caption"], 1))
    options = EvalOptions(root=str(folder / "precomp"), split="dev")
    assert evaluate(model, options, cache=tmp_path).n_captions == 8
    with pytest.raises(OptionError, match="no split 'val'; give --split, one of: dev, test$"):
        evaluate(model, EvalOptions(root=str(folder / "precomp")), cache=tmp_path)
    with pytest.raises(DataError, match="has no region features"):
        evaluate(model, EvalOptions(root=str(folder / "table")), cache=tmp_path)


def test_tables_without_splits_are_evaluated_as_a_whole(folder, model, tmp_path):
    text = (folder / "table" / "captions.csv").read_text()
    file = tmp_path / "own.tsv"
    file.write_text("\n".join("\t".join(line.split(",")[:2]) for line in text.splitlines()))
    options = EvalOptions(root=str(file), images=str(folder / "table" / "images"))
    assert evaluate(model, options, cache=tmp_path).n_images == 7
    with pytest.raises(DataError, match="give data.images .--images of `diverset evaluate`."):
        evaluate(model, EvalOptions(root=str(file)), cache=tmp_path)
    with pytest.raises(DataError, match="give the folder that their names are relative to"):
        evaluate(model, EvalOptions(root=str(file), images="."), cache=tmp_path)


def test_the_shipped_recipe_does_not_decide_the_format_of_other_data(folder, tmp_path, capsys):
    """The error is about the missing path, or the number of splits, not about a Karpathy file."""
    assert main(["evaluate", "photos", "--data", str(tmp_path / "nowhere")]) == 2
    assert "nowhere does not exist; give" in capsys.readouterr().err
    assert main(["evaluate", "photos", "--data", str(folder / "coco")]) == 2
    assert "give --split, one of: test_ids.npy, val_ids.npy, all" in capsys.readouterr().err
    assert main(["evaluate", "photos", "--data", str(tmp_path)]) == 2
    assert "has no caption file; give --file" in capsys.readouterr().err


def test_two_models_are_compared_on_the_same_captions(folder, model, tmp_path, capsys):
    other = Model(small_cnn(), model.vocabulary)
    options = EvalOptions(root=str(folder / "table"), split="all")
    report, second, comparison = compare(model, other, options, cache=tmp_path)
    assert comparison.difference == pytest.approx(report.rsum - second.rsum)
    assert (comparison.first, comparison.second) == pytest.approx((second.rsum, report.rsum))
    _, _, same = compare(model, model, options, cache=tmp_path)
    assert (same.difference, same.p_value) == (0.0, 1.0)

    for name, saved in (("a", model), ("b", other)):
        saved.save_pretrained(tmp_path / name)
    command = ["evaluate", str(tmp_path / "a"), "--against", str(tmp_path / "b")]
    command += ["--data", str(folder / "table"), "--split", "all"]
    assert main(command) == 0
    assert "paired bootstrap, 10,000 resamples" in capsys.readouterr().out
    assert main([*command, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["comparison"]["difference"] == pytest.approx(comparison.difference)
    assert content["against"]["rsum"] == pytest.approx(second.rsum)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "coco1k"}, "protocol is 'coco1k'; choose one of: full, coco_1k"),
        ({"similarity": "cosine"}, "similarity is 'cosine'; choose one of: smooth_chamfer"),
        ({"alpha": 0.0}, "alpha is 0.0"),
    ],
)
def test_wrong_options_are_rejected_before_anything_is_encoded(options, message):
    with pytest.raises(OptionError, match=message):
        EvalOptions(**options)


def test_smooth_chamfer_by_name_uses_the_alpha_of_the_model(folder, model, tmp_path):
    config = replace(small_cnn(), similarity=SimilarityConfig(alpha=2.0))
    options = EvalOptions(root=str(folder / "table"), split="val", similarity="smooth_chamfer")
    [encoded] = encode_models(
        [Model(config, model.vocabulary)], options, tmp_path, "cpu", Progress(enabled=False)
    )
    assert encoded.member.options == {"alpha": 2.0}


def test_precision_is_also_that_of_cross_attention(folder, model, tmp_path):
    config = replace(
        small_cnn(), similarity=SimilarityConfig(kind="scan"),
        image_set=SetConfig(kind="local"), text_set=SetConfig(kind="local"),
    )  # fmt: skip
    scanner = Model(config, model.vocabulary).eval()
    scores = []
    for precision in ("float32", "bfloat16"):
        options = EvalOptions(root=str(folder / "table"), split="val", precision=precision)
        [encoded] = encode_models([scanner], options, tmp_path, "cpu", Progress(enabled=False))
        similarity, arguments = encoded.member.similarity, encoded.member.options
        if precision == "float32":
            sets = encoded.member.images, encoded.member.texts
        scores.append(similarity_matrix(*sets, similarity, **arguments))
    assert not torch.equal(*scores)
    torch.testing.assert_close(*scores, rtol=0, atol=0.02)


def test_elements_that_do_not_exist_are_rejected_before_anything_is_encoded(
    folder, model, monkeypatch
):
    monkeypatch.setattr("diverset.evaluation.encoded.open_split", None)
    options = EvalOptions(root=str(folder / "table"), image_elements=[9])
    with pytest.raises(OptionError, match=r"cannot select the elements with indices \[9\]"):
        evaluate(model, options)
