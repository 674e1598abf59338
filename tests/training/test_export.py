"""A trained model handed on: banks, small weights, names, evaluation from a folder."""

import json
from pathlib import Path

import pytest
import torch
from tiny_networks import scenes_recipe

import diverset
from diverset import Model
from diverset.cli import main
from diverset.errors import CheckpointError, OptionError
from diverset.evaluation.calibration import Calibration, load_calibration
from diverset.evaluation.options import EvalOptions
from diverset.evaluation.query_bank import QUERY_BANK_FILE, load_query_bank
from diverset.evaluation.run import evaluate
from diverset.recipe.run_folder import read_recipe
from diverset.reproduce.scenes import ScenesOptions, write_scenes
from diverset.training.train import train

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    write_scenes(folder / "data", train=8, val=4, test=4, options=ScenesOptions(size=32))
    train(scenes_recipe(folder / "data"), folder / "run", folder / "cache", "cpu")
    return folder


def test_object_names_are_queries_for_labelled_images(trained: Path, tmp_path, capsys):
    run, cache = str(trained / "run"), str(trained / "cache")
    labels = tmp_path / "labels.tsv"
    content = json.loads((trained / "data" / "dataset_scenes.json").read_text())
    ids = [Path(image["filename"]).stem for image in content["images"] if image["split"] == "val"]
    labels.write_text("".join(f"{id_}\t{'dog, car' if id_ != ids[0] else 'dog'}\n" for id_ in ids))
    options = ["--cache", cache, "--objects", str(labels)]
    for models in ([run], [run, run]):  # an ensemble of equal models ranks like one of them
        assert main(["evaluate", *models, *options, "--json"]) == 0
        scores = json.loads(capsys.readouterr().out)["extras"]["object names as queries (percent)"]
        assert scores["objects"] == 2 and scores["labelled images"] == len(ids) == 4
        # Every image shows a dog. One image without a car lowers P@10 of 4 hits to 3 / 4.
        assert scores["P@10"] == 100 * (1 + 3 / 4) / 2
        assert 100 * (1 + (1 / 2 + 2 / 3 + 3 / 4) / 3) / 2 <= scores["mAP"] <= 100
    assert main(["evaluate", run, *options]) == 0
    assert "  - mAP: " in capsys.readouterr().out


def test_a_bank_is_made_stored_and_used_again(trained: Path):
    run, cache = str(trained / "run"), trained / "cache"
    plain = evaluate([run], cache=cache)
    report = evaluate([run], EvalOptions(hubness=5, save_bank=True), cache=cache)
    assert report.rsum == plain.rsum  # reported beside, not instead
    corrected = report.extras["with hubness correction"]
    assert corrected["rsum"] >= plain.rsum and corrected["training queries"] == [5]
    assert "with hubness correction" in report.table() and json.loads(report.to_json())
    model = diverset.load(run)
    stored = load_query_bank(trained / "run" / "model", model.fingerprint())
    assert stored.texts.shape == (5, 2, 8) and stored.weight in [
        *corrected["weight, chosen on validation"]
    ]
    again = evaluate([run], EvalOptions(hubness=7, split="test"), cache=cache)
    assert again.extras["with hubness correction"]["training queries"] == [5]
    with pytest.raises(CheckpointError, match="bank of the model .*; the model here is other"):
        load_query_bank(trained / "run" / "model", "other")
    (trained / "damaged").mkdir()
    (trained / "damaged" / QUERY_BANK_FILE).write_bytes(b"cut")
    with pytest.raises(CheckpointError, match="damaged"):
        load_query_bank(trained / "damaged", "x")
    both = evaluate([run, run], EvalOptions(hubness=5), cache=cache)
    assert both.extras["with hubness correction"]["rsum"] == corrected["rsum"]


def test_an_exported_model_is_small_and_can_be_evaluated(trained: Path, tmp_path, capsys):
    out, source = tmp_path / "model", diverset.load(trained / "run")
    Calibration(1, 2, fingerprint=source.fingerprint()).save(trained / "run" / "model")
    assert main(["export-model", str(trained / "run"), str(out)]) == 0
    assert "float16" in capsys.readouterr().out
    sizes = [
        (folder / "model.safetensors").stat().st_size for folder in (out, trained / "run" / "model")
    ]
    assert sizes[0] < 0.6 * sizes[1]
    recipe = read_recipe(out / "recipe.yaml")
    assert recipe.data.root == "." and str(trained) not in (out / "recipe.yaml").read_text()
    read = Model.from_pretrained(out)
    calibration = load_calibration(out, read.fingerprint())
    assert calibration is not None and calibration.similarity == 2
    assert read.dtype == torch.float32
    captions = ["a dog", "a red car"]
    torch.testing.assert_close(
        read.encode_texts(captions), source.encode_texts(captions), atol=2e-2, rtol=0
    )
    options = EvalOptions(root=str(trained / "data"), precision="bfloat16")
    assert evaluate([str(out)], options, cache=trained / "cache").n_images == 4
    given = ["evaluate", str(out), "--data", str(trained / "data"), "--hubness", "4"]
    assert main([*given, "--cache", str(trained / "cache")]) == 0
    assert "hubness" in capsys.readouterr().out


def test_weights_that_do_not_fit_are_named(tmp_path):
    model = Model(scenes_recipe(tmp_path).model, diverset.Vocabulary.build(["a dog"], 1))
    with torch.no_grad():
        model.text_encoder.sets.slots[0, 0] = 1e6
    with pytest.raises(OptionError, match="slots overflows in torch.float16"):
        model.save_pretrained(tmp_path / "m", dtype=torch.float16)


def test_names_that_cannot_be_loaded(tmp_path, monkeypatch):
    with pytest.raises(CheckpointError, match=r"a shipped model \(photos\)"):
        diverset.load(tmp_path / "nowhere")
    monkeypatch.setattr("diverset.model.folder.SHIPPED", tmp_path)
    with pytest.raises(CheckpointError, match="'photos' .* not part of this installation.*train"):
        diverset.load("photos")
    model = Model(scenes_recipe(tmp_path).model, diverset.Vocabulary.build(["a dog"], 1))
    model.save_pretrained(tmp_path / "photos")
    assert diverset.load("photos").fingerprint() == model.fingerprint()
