"""Encoding in evaluation mode: modes, precision, batches read ahead."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from model.model_support import CAPTIONS, VOCABULARY, make_config, make_model
from PIL import Image

from diverset import Model
from diverset.errors import InputError, OptionError
from diverset.types import Padded


def test_encoding_is_deterministic_and_restores_training_mode():
    model = make_model().train()
    regions = torch.randn(2, 4, 12)
    assert torch.equal(model.encode_images(regions), model.encode_images(regions))
    assert model.training


def test_attention_has_one_map_per_iteration():
    sets = make_model().image_encoder(Padded.of([torch.randn(3, 12)]), with_attention=True)
    assert [tuple(map_.shape) for map_ in sets.attention] == [(1, 2, 3, 3)] * 4


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_models_in_float64_and_bfloat16_encode(dtype):
    model = make_model().to(dtype)
    assert model.encode_images(torch.randn(2, 4, 12)).dtype == dtype
    assert model.encode_texts(CAPTIONS).dtype == dtype
    reads_maps = Model(make_config(image={"kind": "convolution", "input_width": 5}), VOCABULARY).to(
        dtype
    )
    assert (
        reads_maps.encode_images(np.random.default_rng(0).standard_normal((2, 5, 3, 3))).dtype
        == dtype
    )


def test_encoding_restores_the_mode_of_every_submodule():
    model = make_model().train()
    frozen = model.image_encoder.features.mlp[1].eval()
    model.encode_images(torch.randn(2, 4, 12))
    model.encode_texts(CAPTIONS)
    assert not frozen.training and model.text_encoder.training


def test_sets_that_overflow_are_rejected_by_index():
    with pytest.raises(InputError, match="the set of item 1 is not finite"):
        make_model().encode_images([torch.ones(3, 12), torch.full((3, 12), 1e38)])


def test_bfloat16_sets_are_close_to_float32_and_normalised():
    model = make_model()
    texts = model.encode_texts(CAPTIONS, precision="bfloat16")
    assert texts.dtype == torch.float32
    torch.testing.assert_close(texts, model.encode_texts(CAPTIONS), rtol=0.05, atol=0.05)
    torch.testing.assert_close(texts.norm(dim=-1), torch.ones(texts.shape[:2]))
    with pytest.raises(
        OptionError, match="precision is 'int8'; choose one of: float32, bfloat16, float16"
    ):
        model.encode_texts(CAPTIONS, precision="int8")


@pytest.mark.parametrize("trained", [0, -1])
def test_images_from_files_equal_backbone_plus_encoder(trained):
    rng = np.random.default_rng(0)
    images = [Image.fromarray(rng.integers(0, 255, (40, 50, 3), dtype=np.uint8)) for _ in range(5)]
    image = {"kind": "convolution", "backbone": "small_cnn", "backbone_size": 32}
    model = make_model(image=image | {"input_width": 256, "trainable_blocks": trained}).eval()
    sets = model.encode_images(images)
    small_batches = model.encode_images(images, batch_size=2)
    torch.testing.assert_close(small_batches, sets, rtol=1e-4, atol=1e-5)
    backbone = model.image_backbone()
    pixels = torch.stack([backbone.preprocess(image) for image in images])
    inputs = backbone(pixels) if trained == 0 else pixels
    with torch.no_grad():
        torch.testing.assert_close(model.image_encoder(inputs).elements, sets, rtol=1e-4, atol=1e-5)
    fast = model.encode_images(images, precision="bfloat16")
    torch.testing.assert_close(fast, sets, rtol=0.05, atol=0.05)


def make_image_model(**changes) -> Model:
    image = {"kind": "convolution", "backbone": "small_cnn", "backbone_size": 32}
    return make_model(image=image | {"input_width": 256} | changes)


def test_a_single_path_or_pil_image_gives_one_set(tmp_path):
    model = make_image_model()
    image = Image.effect_noise((40, 50), 64).convert("RGB")
    image.save(tmp_path / "a.png")
    expected = model.encode_images([image])
    assert expected.shape == (1, 3, 8)
    for single in (image, tmp_path / "a.png", str(tmp_path / "a.png")):
        torch.testing.assert_close(model.encode_images(single), expected)


def test_batch_size_is_not_capped(monkeypatch):
    model = make_image_model()
    sizes = []
    forward = type(model.image_encoder).forward
    monkeypatch.setattr(
        type(model.image_encoder),
        "forward",
        lambda self, inputs, *args: sizes.append(len(inputs)) or forward(self, inputs, *args),
    )
    images = [Image.new("RGB", (32, 32))] * 40
    model.encode_images(images)
    model.encode_images(images, batch_size=40)
    assert sizes == [32, 8, 40]


def test_the_bfloat16_copy_is_kept_until_a_weight_changes():
    encoder = make_image_model(trainable_blocks=-1).image_encoder
    copy = encoder.for_inference()
    assert encoder.for_inference() is copy
    with torch.no_grad():
        encoder.features.fc.bias += 1.0
    changed = encoder.for_inference()
    assert changed is not copy
    torch.testing.assert_close(changed.features.fc.bias, encoder.features.fc.bias)
    assert not any(name.startswith("_inference") for name in encoder.state_dict())


def test_the_copy_for_bfloat16_computes_what_autocast_computes():
    encoder = make_model().image_encoder.eval()
    copy = encoder.for_inference("bfloat16")
    assert copy.sets.to_keys.weight.dtype == torch.bfloat16
    assert encoder.sets.to_keys.weight.dtype == torch.float32
    inputs = Padded.of([torch.randn(3, 12), torch.randn(2, 12)])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(copy(inputs).elements, encoder(inputs).elements)


def test_threads_that_share_an_encoder_copy_it_once():
    encoder = make_model().image_encoder
    with ThreadPoolExecutor(8) as threads:
        copies = list(threads.map(lambda _: encoder.for_inference(), range(32)))
    assert len(set(map(id, copies))) == 1
