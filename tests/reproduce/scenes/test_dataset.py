import json
from itertools import combinations
from pathlib import Path

import pytest
from PIL import Image

from diverset.errors import OptionError
from diverset.reproduce.scenes import (
    Scene,
    ScenesOptions,
    captions_of,
    draw_scene,
    sample_scene,
    write_scenes,
)
from diverset.reproduce.scenes.dataset import split_of, split_scene

SMALL = ScenesOptions(size=24)


@pytest.mark.parametrize(("situations", "captions"), [(4, 5), (2, 7), (6, 3)])
def test_captions_cover_all_situations_evenly(
    situations: int, captions: int, parse_caption
) -> None:
    scene = sample_scene(3, ScenesOptions(situations=situations))
    captioned = captions_of(scene, captions)
    counts = [sum(index == i for _, index in captioned) for i in range(situations)]
    assert len({raw for raw, _ in captioned}) == captions
    assert max(counts) - min(counts) <= 1
    for raw, index in captioned:
        assert parse_caption(raw)[:2] == (
            scene.situations[index].kind,
            scene.situations[index].colour,
        )


def test_splits_share_no_combination_of_situations() -> None:
    """Even when so few combinations exist that images repeat within a split."""
    options = ScenesOptions(situations=1, variety="low")
    combinations_of = {
        split: {split_scene(split, number, 0, options).situations for number in range(150)}
        for split in ("train", "val", "test")
    }
    for one, two in combinations(combinations_of.values(), 2):
        assert not one & two
    scene = sample_scene(4)
    turned = Scene(9, "snow", scene.situations[::-1], scene.boxes)
    assert split_of(scene) == split_of(turned)


def test_the_dataset_is_complete_and_in_karpathys_format(tmp_path: Path, parse_caption) -> None:
    calls: list[tuple[int, int]] = []
    path = write_scenes(
        tmp_path / "new", 3, 2, 1, options=SMALL, progress=lambda *c: calls.append(c)
    )
    assert calls == [(done, 6) for done in range(1, 7)]
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["dataset"] == "scenes"
    assert [image["split"] for image in content["images"]] == ["train"] * 3 + ["val"] * 2 + ["test"]
    sentids = [sentid for image in content["images"] for sentid in image["sentids"]]
    assert sentids == list(range(30))
    for image in content["images"]:
        with Image.open(path.parent / "images" / image["filename"]) as opened:
            assert opened.size == (24, 24)
        assert [s["sentid"] for s in image["sentences"]] == image["sentids"]
        for sentence in image["sentences"]:
            situation = image["scene"]["situations"][sentence["situation"]]
            assert parse_caption(sentence["raw"])[:2] == (situation["kind"], situation["colour"])
            assert len(situation["box"]) == 4
    assert not list(path.parent.glob("*.part"))


def test_distinct_held_out_scenes_share_no_situation(tmp_path: Path) -> None:
    options = ScenesOptions(size=24, variety="low", distinct=True, held_out_size=32)
    path = write_scenes(tmp_path, 40, 30, 40, options=options)
    images = json.loads(path.read_text(encoding="utf-8"))["images"]
    repeated = {}
    for split in ("train", "val", "test"):
        situations = [
            tuple(value for name, value in situation.items() if name != "box")
            for image in images
            if image["split"] == split
            for situation in image["scene"]["situations"]
        ]
        repeated[split] = len(situations) - len(set(situations))
    assert repeated["train"] > 0 and repeated["val"] == repeated["test"] == 0
    for name, side in (("train_000000.png", 24), ("test_000039.png", 32)):
        with Image.open(tmp_path / "images" / name) as opened:
            assert opened.size == (side, side)
    with pytest.raises(OptionError, match="test is 74.* for 73 images"):
        write_scenes(tmp_path, 1, 1, 74, options=options)


def test_captions_can_be_written_without_images(tmp_path: Path) -> None:
    drawn = write_scenes(tmp_path / "drawn", 2, 1, 0, options=SMALL)
    captions = write_scenes(tmp_path / "captions", 2, 1, 0, options=SMALL, draw=False)
    assert captions.read_bytes() == drawn.read_bytes()
    assert not list((tmp_path / "captions" / "images").iterdir())


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        write_scenes(tmp_path / name, 2, 1, 0, seed=seed, options=SMALL)
    files = [file.relative_to(tmp_path / "one") for file in (tmp_path / "one").rglob("*.*")]
    assert len(files) == 4
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
        assert (tmp_path / "one" / file).read_bytes() != (tmp_path / "three" / file).read_bytes()


def test_more_images_do_not_change_the_first_ones(tmp_path: Path) -> None:
    few = json.loads(write_scenes(tmp_path / "few", 2, 1, 0, options=SMALL).read_text())
    many = json.loads(write_scenes(tmp_path / "many", 4, 1, 0, options=SMALL).read_text())
    by_name = {image["filename"]: image["scene"] for image in many["images"]}
    assert all(by_name[image["filename"]] == image["scene"] for image in few["images"])


def test_only_an_incomplete_or_different_folder_is_rewritten(tmp_path: Path) -> None:
    calls: list[int] = []

    def write(options: ScenesOptions = SMALL) -> Path:
        calls.clear()
        return write_scenes(
            tmp_path, 2, 0, 0, options=options, progress=lambda d, _: calls.append(d)
        )

    path = write()
    content = path.read_bytes()
    write()
    assert not calls
    (tmp_path / "images" / "train_000001.png").unlink()
    write()
    assert calls == [1, 2]
    path.write_text('{"scenes": ', encoding="utf-8")
    write()
    assert calls == [1, 2] and path.read_bytes() == content
    write(ScenesOptions(size=24, variety="low"))
    assert calls == [1, 2] and path.read_bytes() != content


def test_invalid_counts_and_sizes_are_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="val is -1"):
        write_scenes(tmp_path, val=-1)
    with pytest.raises(OptionError, match="seed"):
        write_scenes(tmp_path, seed=-1)
    with pytest.raises(OptionError, match="size is 3"):
        draw_scene(sample_scene(0), 3)
    assert not list(tmp_path.iterdir())
