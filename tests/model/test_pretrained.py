import json

import pytest
import torch
from model.model_support import CAPTIONS, make_config, make_model
from safetensors.torch import load_file, save_file

from diverset import Model
from diverset.errors import CheckpointError, OptionError


@pytest.fixture
def folder(tmp_path):
    make_model().save_pretrained(tmp_path / "saved")
    return tmp_path / "saved"


def test_a_saved_model_loads_with_equal_sets_and_fingerprint(tmp_path):
    model = make_model(similarity={"kind": "match_probability"})
    model.save_pretrained(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["README.md", "config.json", "model.safetensors", "vocabulary.json"]
    read = Model.from_pretrained(tmp_path)
    assert read.config == model.config and read.vocabulary == model.vocabulary
    assert read.fingerprint() == model.fingerprint() and not read.training
    assert torch.equal(read.encode_texts(CAPTIONS), model.encode_texts(CAPTIONS))


def test_a_model_without_vocabulary_can_be_saved_with_a_card(tmp_path):
    model = Model(make_config(text={"kind": "transformer", "input_width": 7}))
    model.save_pretrained(tmp_path, card="# mine\n")
    assert Model.from_pretrained(tmp_path).vocabulary is None
    assert (tmp_path / "README.md").read_text() == "# mine\n"


def test_a_missing_folder_is_explained(tmp_path):
    with pytest.raises(CheckpointError, match="nowhere.*save_pretrained"):
        Model.from_pretrained(tmp_path / "nowhere")


def test_missing_and_truncated_weights_are_explained(folder):
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


def test_other_formats_are_rejected(folder):
    for version in (1, 99):
        change(folder, format=version)
        with pytest.raises(CheckpointError, match=f"format {version}, this version reads 2"):
            Model.from_pretrained(folder)


def test_foreign_and_truncated_configs_are_rejected(folder):
    (folder / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(CheckpointError, match="not the config of a diverset model"):
        Model.from_pretrained(folder)
    (folder / "config.json").write_text('{"format": 2')
    with pytest.raises(CheckpointError, match="not complete JSON"):
        Model.from_pretrained(folder)


def test_weights_of_another_architecture_are_rejected(folder):
    plain = json.loads((folder / "config.json").read_text())["model"]
    change(folder, model=plain | {"dim": 16})
    with pytest.raises(CheckpointError, match=r"has shape \(\d.*asks for"):
        Model.from_pretrained(folder)
    other = plain["image_set"] | {"kind": "pie_net"}
    change(folder, model=plain | {"image_set": other})
    with pytest.raises(
        CheckpointError, match="belongs to another model: missing keys 'image_encoder"
    ):
        Model.from_pretrained(folder)
    change(folder, model=plain | {"colour": "red"})
    with pytest.raises(OptionError, match="unknown option colour"):
        Model.from_pretrained(folder)


def test_weights_of_another_training_are_rejected(folder):
    """Same architecture, other weights: shapes agree, the fingerprint does not."""
    torch.manual_seed(1)
    make_model().save_pretrained(folder.parent / "other")
    (folder.parent / "other" / "model.safetensors").replace(folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="do not belong to its config.json"):
        Model.from_pretrained(folder)


def test_the_text_side_is_not_loaded_from_images_of_another_training(folder, tmp_path):
    torch.manual_seed(9)
    make_model().save_pretrained(tmp_path / "other")
    images = load_file(tmp_path / "other" / "model.safetensors")
    tensors = load_file(folder / "model.safetensors")
    mixed = {name: (images if "image" in name else tensors)[name] for name in tensors}
    save_file(mixed, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="do not belong to its config"):
        Model.from_folder(folder, texts_only=True)


def test_files_have_the_usual_permissions(folder):
    (folder / "ordinary").touch()
    usual = (folder / "ordinary").stat().st_mode
    assert {file.stat().st_mode for file in folder.iterdir()} == {usual}


def test_a_float64_model_is_loaded_as_float32(tmp_path):
    model = make_model().double()
    model.save_pretrained(tmp_path)
    loaded = Model.from_pretrained(tmp_path)
    assert loaded.dtype == torch.float32
    torch.testing.assert_close(
        loaded.encode_texts(CAPTIONS).double(), model.encode_texts(CAPTIONS), rtol=0, atol=1e-5
    )
