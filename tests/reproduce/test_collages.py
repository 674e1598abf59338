import json

import numpy as np
import pytest
from PIL import Image

from diverset.data import CaptionDataset, KarpathyFile
from diverset.errors import DataError
from diverset.reproduce.collages import (
    COMPLETE,
    FILE,
    IMAGES,
    draw_collage,
    draw_images,
    group_photos,
    write_captions,
)


@pytest.fixture
def photos(tmp_path):
    """Ten photographs, each of one shade of grey, with five captions each."""
    paths = []
    for number in range(10):
        paths.append(tmp_path / f"{number}.png")
        Image.new("RGB", (40, 30), (20 * number,) * 3).save(paths[-1])
    return CaptionDataset(
        "photos",
        tuple(str(number) for number in range(10)),
        tuple(f"photo {number} caption {c}" for number in range(10) for c in range(5)),
        np.repeat(np.arange(10), 5),
        tuple(paths),
    )


@pytest.mark.parametrize("count", [1, 2, 3, 4, 9])
def test_each_photo_is_in_at_most_one_collage_of_a_round(photos, count):
    used = [photo for collage in group_photos(photos, count, rounds=1) for photo in collage.photos]
    assert len(set(used)) == len(used) == 10 // count * count


@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_captions_describe_the_photos_in_turn_without_repetition(photos, count):
    for collage in group_photos(photos, count, rounds=3, captions=5):
        described = [int(photos.image_index[row]) for row in collage.captions]
        assert described == [collage.photos[turn % count] for turn in range(5)]
        assert len(set(collage.captions)) == 5


@pytest.mark.parametrize("count", [1, 2, 4, 9])
def test_without_a_limit_a_collage_has_all_captions_of_its_photos(photos, count):
    for collage in group_photos(photos, count):
        described = [int(photos.image_index[row]) for row in collage.captions]
        assert sorted(described) == sorted(5 * collage.photos)
        assert len(set(collage.captions)) == 5 * count


def test_a_collage_with_few_captions_has_as_many_as_there_are(photos):
    one_each = CaptionDataset("few", ("a", "b"), ("a cat", "a dog"), np.array([0, 1]))
    (collage,) = group_photos(one_each, 2, captions=5)
    assert sorted(collage.captions) == [0, 1]


def test_rounds_group_differently_and_a_seed_repeats_them(photos):
    first, second = (list(group_photos(photos, 2, rounds=2, seed=3)) for _ in range(2))
    assert first == second
    assert {c.photos for c in first[:5]} != {c.photos for c in first[5:]}


def test_more_photos_than_images_are_rejected(photos):
    with pytest.raises(DataError, match="a collage of 11 photographs"):
        list(group_photos(photos, 11, rounds=1))


def test_tiles_are_in_the_order_of_the_photos(photos):
    pixels = np.asarray(draw_collage(list(photos.image_paths[:4])))[:, :, 0]
    assert pixels.shape == (384, 384)
    assert pixels[96::192, 96::192].tolist() == [[0, 20], [40, 60]]


def test_written_collages_are_a_karpathy_dataset_with_a_constant_training_size(photos, tmp_path):
    splits = {"train": photos, "val": photos}
    for count in (1, 2):
        folder = tmp_path / str(count)
        write_captions(folder, splits, count)
        draw_images(folder, splits)
        file = KarpathyFile(folder / FILE)
        sizes = [len(file.read(folder / IMAGES, name)) for name in ("train", "val")]
        assert sizes == [10, 10 // count]
        entry = json.loads((folder / FILE).read_text())["images"][0]
        with Image.open(folder / IMAGES / entry["filename"]) as image:
            left_pixel = image.getpixel((5, 5))[0]
        assert abs(left_pixel - 20 * int(entry["photos"][0])) < 3


def test_an_interrupted_drawing_is_repeated(photos, tmp_path):
    splits = {"val": photos}
    write_captions(tmp_path / "c", splits, 2)
    draw_images(tmp_path / "c", splits)
    (tmp_path / "c" / COMPLETE).unlink()
    victim = next((tmp_path / "c" / IMAGES).iterdir())
    victim.write_bytes(b"half")
    draw_images(tmp_path / "c", splits)
    with Image.open(victim) as image:
        assert image.size == (384, 192)
