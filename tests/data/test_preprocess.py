import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from diverset.data import Preprocess, RandomResizedCrop
from diverset.data.preprocess import to_pixels
from diverset.errors import OptionError


def stripes(width: int = 40, height: int = 20) -> Image.Image:
    """Red on the left quarter, blue on the right one, white between."""
    image = Image.new("RGB", (width, height), "white")
    image.paste("red", (0, 0, width // 4, height))
    image.paste("blue", (width * 3 // 4, 0, width, height))
    return image


def test_center_crop_removes_the_sides():
    found = Preprocess(20, interpolation="nearest").pixels(stripes())
    assert found.shape == (3, 20, 20) and found.dtype == torch.uint8
    assert (found == 255).all()


def test_squash_keeps_the_sides():
    found = Preprocess(20, crop="squash", interpolation="nearest").pixels(stripes())
    assert found[:, 0, 0].tolist() == [255, 0, 0]
    assert found[:, 0, -1].tolist() == [0, 0, 255]


def test_resize_before_the_crop_agrees_with_doing_it_in_two_steps():
    noise = np.random.default_rng(0).integers(0, 255, (64, 96, 3), dtype=np.uint8)
    image = Image.fromarray(noise).resize((96, 64))
    two_steps = image.resize((48, 32)).crop((12, 4, 36, 28))
    found = Preprocess(24, resize=32).pixels(image).float()
    assert (found - to_pixels(two_steps).float()).abs().mean() < 8  # the borders see other pixels


def test_pixels_are_normalised_by_mean_and_std():
    done = Preprocess(2, mean=(0.5, 0.25, 0.0), std=(0.5, 0.25, 1.0))
    found = done(Image.new("RGB", (2, 2), (255, 0, 51)))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found[:, 0, 0], torch.tensor([1.0, -1.0, 0.2]))
    batch = done.batch([done.pixels(Image.new("RGB", (2, 3), (255, 0, 51)))] * 3)
    torch.testing.assert_close(batch[1], found)
    assert batch.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size is 0"),
        ({"size": 8, "crop": "middle"}, "crop is 'middle'; choose one of: center, squash"),
        ({"size": 8, "resize": 4}, "resize is 4"),
        ({"size": 8, "interpolation": "cubic"}, "choose one of: nearest"),
        ({"size": 8, "std": (1.0, 0.0, 1.0)}, "above 0"),
    ],
)
def test_invalid_options_are_rejected_by_name(options: dict, message: str):
    with pytest.raises(OptionError, match=message):
        Preprocess(**options)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 2**32))
def test_random_boxes_lie_inside(width: int, height: int, seed: int):
    left, top, right, bottom = RandomResizedCrop((0.1, 1.0)).box(
        width, height, np.random.default_rng(seed)
    )
    assert 0 <= left < right <= width and 0 <= top < bottom <= height


def test_random_boxes_have_the_configured_area_and_ratio():
    generator = np.random.default_rng(0)
    crop = RandomResizedCrop((0.36, 1.0))
    boxes = np.array([crop.box(400, 400, generator) for _ in range(500)])
    across, down = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    share = across * down / 400**2
    assert share.min() > 0.35 and share.max() <= 1.0 and 0.55 < share.mean() < 0.75
    assert (across / down).min() > 0.74 and (across / down).max() < 1.35


def test_same_seed_gives_the_same_view():
    views = [
        RandomResizedCrop().pixels(stripes(), Preprocess(16), np.random.default_rng(seed))
        for seed in (5, 5, 6)
    ]
    assert torch.equal(views[0], views[1]) and not torch.equal(views[0], views[2])
    assert views[0].shape == (3, 16, 16)


def test_flip_mirrors_the_image():
    whole = {"scale": (1.0, 1.0), "ratio": (2.0, 2.0)}
    plain, mirrored = (
        RandomResizedCrop(**whole, flip=flip).pixels(
            stripes(), Preprocess(16), np.random.default_rng(0)
        )
        for flip in (0.0, 1.0)
    )
    assert torch.equal(plain.flip(-1), mirrored)


@pytest.mark.parametrize(
    "options", [{"scale": (0.0, 1.0)}, {"scale": (0.5, 0.4)}, {"ratio": (0, 1)}, {"flip": 2}]
)
def test_invalid_crops_are_rejected_by_name(options: dict):
    with pytest.raises(OptionError, match=next(iter(options))):
        RandomResizedCrop(**options)
