import sys

import pytest
import torch

from diverset.backbones import load_image_backbone, load_text_backbone
from diverset.errors import MissingExtraError, OptionError, ShapeError


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


@pytest.mark.parametrize(("size", "side"), [(None, 12), (128, 16)])
def test_small_cnn_maps_pixels_to_an_eighth_and_trains_all_layers(size: int | None, side: int):
    network = load_image_backbone("small_cnn", size=size)
    found = network(torch.randn(2, 3, network.size, network.size))
    assert found.shape == (2, network.width, side, side)
    found.mean().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
    assert len(network.stages()) == 5


def test_crop_can_be_chosen_and_is_part_of_the_name():
    torch.manual_seed(0)
    squash = load_image_backbone("small_cnn")
    torch.manual_seed(0)
    center = load_image_backbone("small_cnn", crop="center")
    assert center.preprocess.crop == "center"
    assert squash.fingerprint() != center.fingerprint()
    with pytest.raises(OptionError, match="crop is 'left'"):
        load_image_backbone("small_cnn", crop="left")


def test_pixels_of_a_wrong_shape_are_named():
    with pytest.raises(ShapeError, match=r"\(1, 1, 96, 96\)"):
        load_image_backbone("small_cnn")(torch.zeros(1, 1, 96, 96))
