"""CLIP, SigLIP and SigLIP 2: the same numbers as transformers, and sets of views and prompts."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_dual_encoders import CAPTIONS, FAMILIES, MAX_LENGTH, save_dual_encoder
from torch.nn import functional as F

import diverset
from diverset.backbones.crops import square_boxes
from diverset.backbones.dual_encoder import IMAGE_PROCESSORS
from diverset.errors import CheckpointError, InputError, OptionError
from diverset.model.folder import is_dual_encoder, model_folder
from diverset.model.onnx import export_onnx

transformers = pytest.importorskip("transformers", reason="needs `pip install transformers`")
TEXTS = [*CAPTIONS, "a dog and a much longer text than any model here has positions for"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    torch.manual_seed(0)
    parent = tmp_path_factory.mktemp("dual_encoders")
    return {family: save_dual_encoder(parent / family, family) for family in FAMILIES}


@pytest.fixture(scope="module")
def clip(folders):
    return folders["clip"]


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


IMAGES = [noise(61, 40, 1), noise(33, 50, 2), noise(24, 24, 3)]


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_images_have_the_features_of_transformers(folders, family):
    network = transformers.AutoModel.from_pretrained(folders[family])
    processor = getattr(transformers, IMAGE_PROCESSORS[family]).from_pretrained(folders[family])
    features = network.get_image_features(**processor(IMAGES, return_tensors="pt")).pooler_output
    found = diverset.load(folders[family]).encode_images(IMAGES)
    torch.testing.assert_close(found[:, 0], F.normalize(features, dim=-1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_texts_have_the_features_of_transformers(folders, family):
    network = transformers.AutoModel.from_pretrained(folders[family])
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders[family])
    padding = True if family == "clip" else "max_length"
    inputs = tokenizer(
        TEXTS, padding=padding, truncation=True, max_length=MAX_LENGTH, return_tensors="pt"
    )
    if family != "clip":  # the published tokenizers of SigLIP return no mask
        inputs = {"input_ids": inputs["input_ids"]}
    features = network.get_text_features(**inputs).pooler_output
    found = diverset.load(folders[family]).encode_texts(TEXTS)
    torch.testing.assert_close(found[:, 0], F.normalize(features, dim=-1), rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_crops_are_the_embeddings_of_the_cropped_images(folders, family):
    single, several = diverset.load(folders[family]), diverset.load(f"{folders[family]}?crops=5")
    for image in IMAGES:
        views = [image, *(image.crop(box) for box in square_boxes(image.size, crops=5))]
        torch.testing.assert_close(
            several.encode_images(image)[0], single.encode_images(views)[:, 0], rtol=0, atol=1e-5
        )


def test_prompts_are_elements_of_a_text(clip):
    model = diverset.load(f"{clip}?prompt=a photo of {{}}&prompt={{}}")
    plain = diverset.load(clip)
    sets = model.encode_texts(["dogs", "a cat"])
    expected = plain.encode_texts(["a photo of dogs", "dogs", "a photo of a cat", "a cat"])
    torch.testing.assert_close(sets.flatten(0, 1), expected[:, 0], rtol=0, atol=1e-5)


def test_similarity_of_single_elements_is_their_cosine(clip):
    model = diverset.load(clip)
    images, texts = model.encode_images(IMAGES), model.encode_texts(TEXTS)
    torch.testing.assert_close(model.similarity(images, texts), images[:, 0] @ texts[:, 0].T)
    scale = float(transformers.AutoModel.from_pretrained(clip).logit_scale.detach().exp())
    assert model.config.similarity.alpha == pytest.approx(scale)


def test_maps_mark_what_each_view_shows(clip):
    model = diverset.load(f"{clip}?crops=5")
    maps = model.element_maps(noise(300, 200))
    rows, columns = maps.shape[1:]
    assert maps.unique().tolist() == [0, 1] and len(maps) == 5
    whole, first, *_, last = maps
    assert float(whole.mean()) == pytest.approx(2 / 3, abs=0.02)  # the central square of CLIP
    assert first[0, 0] == 1 and first[-1].max() == 0 and first[:, columns // 2 + 1 :].max() == 0
    assert last[-1, -1] == 1 and last[0].max() == 0 and last[:, : columns // 2 - 1].max() == 0
    assert maps.amax(dim=0).min() == 1  # nothing of the image is left out


@pytest.mark.parametrize("file", ["config.json", "processor_config.json", "model.safetensors"])
def test_fingerprint_depends_on_every_file(clip, tmp_path, file):
    copy = shutil.copytree(clip, tmp_path / "renamed")
    assert diverset.load(copy).fingerprint() == diverset.load(clip).fingerprint()
    if file == "model.safetensors":
        network = transformers.AutoModel.from_pretrained(copy)
        network.visual_projection.weight.data[0, 0] += 0.1
        network.save_pretrained(copy)
    else:
        content = json.loads((copy / file).read_text())
        if file == "config.json":
            content["vision_config"]["hidden_act"] = "gelu"
        else:
            content["image_processor"]["resample"] = 2
        (copy / file).write_text(json.dumps(content))
    assert diverset.load(copy).fingerprint() != diverset.load(clip).fingerprint()


def test_fingerprint_depends_on_crops_and_prompts(clip):
    specs = ["", "?crops=5", "?prompt=a photo of {}", "?crops=5&prompt=a photo of {}"]
    assert len({diverset.load(f"{clip}{spec}").fingerprint() for spec in specs}) == 4


def test_bfloat16_is_close(clip):
    model = diverset.load(f"{clip}?crops=5")
    rounded = model.encode_images(IMAGES, precision="bfloat16")
    assert float((rounded * model.encode_images(IMAGES)).sum(dim=-1).min()) > 0.99


def test_sets_do_not_depend_on_the_batch(clip):
    model = diverset.load(clip)
    together = model.encode_texts(TEXTS)
    alone = torch.cat([model.encode_texts(text) for text in TEXTS])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("?crops=4", "crops is 4; give 1 .* 5 .* 10"),
        ("?crops=0", "crops is 0"),
        ("?crops=two", "crops is 'two'"),
        ("?crop=5", "unknown model option 'crop'"),
        ("?prompt=a photo", "no {} for the text"),
    ],
)
def test_wrong_options_are_errors(clip, spec, message):
    with pytest.raises(OptionError, match=message):
        diverset.load(f"{clip}{spec}")


def test_options_of_other_models_are_errors():
    with pytest.raises(OptionError, match="is not a CLIP or SigLIP; omit the options"):
        diverset.load("photos?crops=5")


def test_empty_texts_and_wrong_pixels_are_errors(clip):
    model = diverset.load(clip)
    with pytest.raises(InputError, match="no words"):
        model.encode_texts([" "])
    with pytest.raises(diverset.errors.ShapeError, match="1 views per image"):
        model.image_inputs(torch.zeros(2, 3, 24, 24))


def test_a_model_that_is_not_in_the_cache_is_not_downloaded(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="hf download nobody/no-such-model"):
        diverset.load("nobody/no-such-model?crops=5")


def test_a_hub_name_is_found_in_the_cache(clip, tmp_path, monkeypatch):
    from huggingface_hub import constants

    snapshot = tmp_path / "models--someone--clip" / "snapshots" / ("0" * 40)
    shutil.copytree(clip, snapshot)
    (tmp_path / "models--someone--clip" / "refs").mkdir()
    (tmp_path / "models--someone--clip" / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert model_folder("someone/clip?crops=5") == snapshot
    assert diverset.load("someone/clip").fingerprint() == diverset.load(clip).fingerprint()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("model.safetensors", "no file named model.safetensors"),
        ("processor_config.json", "image processor"),
        ("tokenizer.json", "has no tokenizer"),
    ],
)
def test_missing_files_are_errors(clip, tmp_path, file, message):
    copy = shutil.copytree(clip, tmp_path / "clip")
    (copy / file).unlink()
    with pytest.raises(CheckpointError, match=message):
        diverset.load(copy)


def test_damaged_weights_are_an_error(clip, tmp_path):
    copy = shutil.copytree(clip, tmp_path / "clip")
    (copy / "model.safetensors").write_bytes((clip / "model.safetensors").read_bytes()[:9999])
    with pytest.raises(CheckpointError, match="incomplete or damaged"):
        diverset.load(copy)


class RunsCode:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


def test_pickled_weights_cannot_run_code(clip, tmp_path):
    copy = shutil.copytree(clip, tmp_path / "clip")
    (copy / "model.safetensors").unlink()
    torch.save({"weight": RunsCode(tmp_path / "ran")}, copy / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="Weights only load failed"):
        diverset.load(copy)
    assert not (tmp_path / "ran").exists()


def test_incomplete_weights_are_an_error(clip, tmp_path):
    copy = shutil.copytree(clip, tmp_path / "clip")
    network = transformers.AutoModel.from_pretrained(copy)
    network.vision_model.save_pretrained(copy)
    shutil.copy(clip / "config.json", copy)
    with pytest.raises(CheckpointError, match="missing keys"):
        diverset.load(copy)


def test_remote_code_is_never_run(clip, tmp_path):
    copy = shutil.copytree(clip, tmp_path / "clip")
    content = json.loads((copy / "config.json").read_text())
    content["auto_map"] = {"AutoModel": "evil.Evil", "AutoConfig": "evil.Config"}
    (copy / "config.json").write_text(json.dumps(content))
    (copy / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    assert diverset.load(copy).encode_texts("a dog").shape == (1, 1, 12)
    assert not (tmp_path / "ran").exists()


def test_dual_encoders_are_neither_saved_nor_exported(clip, tmp_path):
    model = diverset.load(clip)
    with pytest.raises(OptionError, match="copy its folder"):
        model.save_pretrained(tmp_path / "copy")
    with pytest.raises(OptionError, match="optimum"):
        export_onnx(model, tmp_path / "onnx")


def test_other_models_of_transformers_are_named_in_the_error(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    assert not is_dual_encoder(tmp_path)
    with pytest.raises(CheckpointError, match="of a bert .* clip, siglip, siglip2"):
        diverset.load(tmp_path)
