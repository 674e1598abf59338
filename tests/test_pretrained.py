import json

import pytest
import torch
from test_model import CAPTIONS, model, settings

from diverset import Model
from diverset.errors import CheckpointError, OptionError


@pytest.fixture
def folder(tmp_path):
    model().save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_a_model_survives_saving(tmp_path):
    made = model(similarity={"kind": "match_probability"})
    made.save_pretrained(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["README.md", "config.json", "model.safetensors", "vocabulary.json"]
    read = Model.from_pretrained(tmp_path)
    assert read.architecture == made.architecture and read.vocabulary == made.vocabulary
    assert read.fingerprint() == made.fingerprint() and not read.training
    assert torch.equal(read.encode_texts(CAPTIONS), made.encode_texts(CAPTIONS))


def test_a_model_without_words_survives_saving(tmp_path):
    made = Model(settings(text={"kind": "transformer", "input_width": 7}))
    made.save_pretrained(tmp_path, card="# mine\n")
    assert Model.from_pretrained(tmp_path).vocabulary is None
    assert (tmp_path / "README.md").read_text() == "# mine\n"


def test_a_missing_folder(tmp_path):
    with pytest.raises(CheckpointError, match="nowhere.*save_pretrained"):
        Model.from_pretrained(tmp_path / "nowhere")


def test_missing_and_truncated_weights(folder):
    weights = folder / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match="model.safetensors is damaged"):
        Model.from_pretrained(folder)
    weights.unlink()
    with pytest.raises(CheckpointError, match="no model.safetensors"):
        Model.from_pretrained(folder)


def change(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_a_newer_format(folder):
    change(folder, format=99)
    with pytest.raises(CheckpointError, match="format 99, this version reads 1"):
        Model.from_pretrained(folder)


def test_a_foreign_or_broken_config(folder):
    (folder / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(CheckpointError, match="not the config of a diverset model"):
        Model.from_pretrained(folder)
    (folder / "config.json").write_text('{"format": 1')
    with pytest.raises(CheckpointError, match="not complete JSON"):
        Model.from_pretrained(folder)


def test_another_architecture(folder):
    plain = json.loads((folder / "config.json").read_text())["model"]
    change(folder, model=plain | {"dim": 16})
    with pytest.raises(CheckpointError, match=r"has shape \(\d.*the model"):
        Model.from_pretrained(folder)
    other = plain["image_set"] | {"kind": "pie_net"}
    change(folder, model=plain | {"image_set": other})
    with pytest.raises(CheckpointError, match="of another model: it lacks 'image_encoder"):
        Model.from_pretrained(folder)
    change(folder, model=plain | {"colour": "red"})
    with pytest.raises(OptionError, match="unknown option colour"):
        Model.from_pretrained(folder)


def test_weights_of_a_sister_model(folder):
    """Same architecture, other weights: shapes agree, the fingerprint does not."""
    torch.manual_seed(1)
    model().save_pretrained(folder.parent / "sister")
    (folder.parent / "sister" / "model.safetensors").replace(folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="are not those its config.json was written for"):
        Model.from_pretrained(folder)
