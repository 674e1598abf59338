import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import pytest
import torch

from diverset.backbones import load_image_backbone, load_text_backbone
from diverset.errors import CheckpointError, MissingExtraError, OptionError, ShapeError


@pytest.mark.parametrize("name", ["resnet152", "transformers", "transformers:", "timm:"])
def test_unknown_names_list_the_choices(name: str):
    with pytest.raises(OptionError, match=f"image backbone is '{name}'.*efficientnet_lite2"):
        load_image_backbone(name)
    with pytest.raises(OptionError, match=f"text backbone is '{name}'.*minilm"):
        load_text_backbone(name)


def test_timm_names_its_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "timm", None)  # as if it were not installed
    with pytest.raises(MissingExtraError, match=r"timm is missing; pip install 'diverset\[timm\]'"):
        load_image_backbone("timm:resnext101_32x8d.fb_wsl_ig1b_ft_in1k")


def test_timm_reads_weights_of_the_hubs_cache_and_downloads_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path
):
    hub = pytest.importorskip("huggingface_hub")
    timm, data = ModuleType("timm"), ModuleType("timm.data")
    settings = {"input_size": (3, 32, 32), "interpolation": "bilinear", "crop_pct": 1.0}
    data.resolve_data_config = lambda *_, **__: settings | {"mean": [0.5] * 3, "std": [0.5] * 3}
    seen = {}

    def create_model(name, **options):
        seen.update(options)
        network = torch.nn.Conv2d(3, 8, 1)
        network.feature_info = SimpleNamespace(channels=lambda: [8])
        return network

    timm.create_model = create_model
    monkeypatch.setitem(sys.modules, "timm", timm)
    monkeypatch.setitem(sys.modules, "timm.data", data)
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(CheckpointError, match="run `hf download timm/resnet18.a1_in1k`"):
        load_image_backbone("timm:resnet18.a1_in1k")
    assert not seen
    monkeypatch.setattr(hub, "hf_hub_download", lambda repo, file, **_: f"/cache/{repo}/{file}")
    assert load_image_backbone("timm:resnet18.a1_in1k").width == 8
    weights = "/cache/timm/resnet18.a1_in1k/model.safetensors"
    assert seen["pretrained_cfg_overlay"] == {"file": weights} and seen["pretrained"]


@pytest.mark.parametrize(("size", "side"), [(None, 12), (128, 16)])
def test_small_cnn_maps_pixels_to_an_eighth_and_trains_all_layers(size: int | None, side: int):
    network = load_image_backbone("small_cnn", size=size)
    found = network(torch.randn(2, 3, network.size, network.size))
    assert found.shape == (2, network.width, side, side)
    found.mean().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
    assert len(network.stages()) == 5


def test_the_crop_is_part_of_the_fingerprint():
    backbone = load_image_backbone("small_cnn")
    squash = backbone.fingerprint()
    backbone.preprocess = replace(backbone.preprocess, crop="center")
    assert backbone.fingerprint() != squash


def test_pixels_of_a_wrong_shape_are_named():
    with pytest.raises(ShapeError, match=r"\(1, 1, 96, 96\)"):
        load_image_backbone("small_cnn")(torch.zeros(1, 1, 96, 96))
