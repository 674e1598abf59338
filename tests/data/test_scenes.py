"""Scenes: what is promised about seeds, captions, places and files."""

import json
import re
from itertools import combinations
from pathlib import Path
from random import Random

import numpy as np
import pytest
from PIL import Image

from diverset.data.scenes import (
    Scene,
    ScenesOptions,
    Situation,
    captions_of,
    describe,
    draw_scene,
    possible_situations,
    sample_scene,
    write_scenes,
)
from diverset.data.scenes.backgrounds import PLACES
from diverset.data.scenes.companions import COMPANION_FIGURES
from diverset.data.scenes.picture import FIGURES
from diverset.data.scenes.sentences import VERBS, participle, third_person
from diverset.data.scenes.vocabulary import (
    BACKGROUNDS,
    COLOURS,
    COMPANIONS,
    KIND,
    KINDS,
    PLACED,
    VARIETIES,
)
from diverset.data.scenes.write import split_of, split_scene
from diverset.errors import OptionError

SMALL = ScenesOptions(size=24)


def described(caption: str) -> tuple[str, str, str, bool]:
    """Kind, colour, companion and whether plural, read back from the words of a caption."""
    text = f" {caption[:-1].lower()} "
    kinds = {k.name for k in KINDS for pair in k.nouns for n in pair if f" {n} " in text}
    colours = {c for c, words in COLOURS.items() for w in words if f" {w} " in text}
    seconds = {c for c, words in COMPANIONS.items() for w in words if f" {w} " in text}
    assert len(kinds) == 1 and len(colours) == 1 and len(seconds) <= 1, caption
    plural = " two " in text or " a couple of " in text
    return kinds.pop(), colours.pop(), seconds.pop() if seconds else "", plural


def test_a_seed_gives_one_scene_and_one_picture() -> None:
    assert sample_scene(11) == sample_scene(11)
    assert sample_scene(11) != sample_scene(12)
    first, second = (draw_scene(sample_scene(11), 48) for _ in range(2))
    assert first.tobytes() == second.tobytes()
    assert first.size == (48, 48) and first.mode == "RGB"


@pytest.mark.parametrize("number", range(1, 7))
def test_situations_stay_inside_and_apart(number: int) -> None:
    for seed in range(60):
        scene = sample_scene(seed, ScenesOptions(situations=number))
        assert len(scene.situations) == len(scene.boxes) == number
        assert len({(s.kind, s.colour) for s in scene.situations}) == number
        for left, top, right, bottom in scene.boxes:
            assert 0 <= left < right <= 1 and 0 <= top < bottom <= 1
        for one, two in combinations(scene.boxes, 2):
            apart_x = one[2] <= two[0] or two[2] <= one[0]
            apart_y = one[3] <= two[1] or two[3] <= one[1]
            assert apart_x or apart_y, (seed, one, two)


def test_every_situation_is_drawn_inside_its_box() -> None:
    """Also: every situation can be drawn, and leaves clear traces."""
    box = (0.3, 0.3, 0.7, 0.7)
    size = 80
    empty = {
        name: np.asarray(draw_scene(Scene(5, name, (), ()), size), dtype=int)
        for name in ("meadow", "night")
    }
    seen: set[tuple[str, str, str, int]] = set()
    for situation in possible_situations("high"):
        look = (situation.kind, situation.action, situation.companion, situation.count)
        if look in seen or situation.colour != "red":
            continue
        seen.add(look)
        name = "night" if len(seen) % 2 else "meadow"
        picture = draw_scene(Scene(5, name, (situation,), (box,)), size)
        rows, columns = np.nonzero(np.abs(np.asarray(picture, dtype=int) - empty[name]).sum(2) > 24)
        assert len(rows) > 60, situation
        for places in (rows, columns):
            assert places.min() >= 0.3 * size - 2 and places.max() <= 0.7 * size + 1, situation


def test_all_words_have_drawings_and_verbs() -> None:
    assert set(FIGURES) == set(KIND)
    assert set(COMPANION_FIGURES) == set(COMPANIONS)
    assert set(PLACES) == set(BACKGROUNDS)
    for kind in KINDS:
        for action in kind.actions:
            assert action not in PLACED or VERBS[kind.habitat, action]


def test_captions_say_what_happens() -> None:
    rng = Random(0)
    for situation in possible_situations("high")[::5]:
        caption = describe(situation, rng)
        expected = (
            situation.kind,
            situation.colour,
            situation.companion,
            situation.count > 1,
        )
        assert described(caption) == expected, caption


def test_captions_are_grammatical() -> None:
    rng = Random(1)
    plurals = {many for kind in KINDS for one, many in kind.nouns if many != one}
    for situation in possible_situations("high")[::3]:
        caption = describe(situation, rng)
        assert re.fullmatch(r"[A-Z][a-z -]*\.", caption), caption
        words = caption[:-1].lower().split()
        for word, following in zip(words, words[1:], strict=False):
            if word in ("a", "an"):
                assert (word == "an") == (following[0] in "aeiou"), caption
            assert word != following, caption
        assert ("are" in words) <= (situation.count > 1), caption
        assert bool(plurals & set(words)) <= (situation.count > 1), caption


@pytest.mark.parametrize("count", [1, 2])
def test_verbs_agree_with_their_subject(count: int) -> None:
    situation = Situation("dog", "blue", "under", "umbrella", count=count)
    base = set(VERBS["ground", "under"])
    right, wrong = base | {"are"}, {third_person(verb) for verb in base} | {"is"}
    if count == 1:
        right, wrong = wrong, right
    loose = {participle(verb) for verb in base}
    for seed in range(80):
        words = set(describe(situation, Random(seed))[:-1].split())
        if words & {"above", "over"}:  # the umbrella is the subject
            assert "is" in words
        else:
            assert words & (right | loose) and not words & wrong


def test_captions_use_many_words() -> None:
    situation = Situation("cat", "blue", "beside", "lamp")
    captions = {describe(situation, Random(seed)) for seed in range(200)}
    assert len(captions) > 80


@pytest.mark.parametrize(("situations", "captions"), [(4, 5), (2, 7), (6, 3)])
def test_captions_go_round_the_situations(situations: int, captions: int) -> None:
    scene = sample_scene(3, ScenesOptions(situations=situations))
    found = captions_of(scene, captions)
    counts = [sum(index == i for _, index in found) for i in range(situations)]
    assert len({raw for raw, _ in found}) == captions
    assert max(counts) - min(counts) <= 1
    for raw, index in found:
        assert described(raw)[:2] == (scene.situations[index].kind, scene.situations[index].colour)


def test_more_variety_means_more_situations() -> None:
    sizes = [len(possible_situations(name)) for name in VARIETIES]
    assert sizes == sorted(sizes)
    for name in VARIETIES:
        possible = set(possible_situations(name))
        assert len(possible) == len(possible_situations(name))
        for seed in range(40):
            assert possible.issuperset(sample_scene(seed, ScenesOptions(variety=name)).situations)


def test_splits_share_no_combination() -> None:
    """Even when so few combinations exist that pictures repeat within a split."""
    options = ScenesOptions(situations=1, variety="low")
    found = {
        split: {split_scene(split, number, 0, options).situations for number in range(150)}
        for split in ("train", "val", "test")
    }
    for one, two in combinations(found.values(), 2):
        assert not one & two
    scene = sample_scene(4)
    turned = Scene(9, "snow", scene.situations[::-1], scene.boxes)
    assert split_of(scene) == split_of(turned)


def test_the_files_are_complete_and_in_karpathys_format(tmp_path: Path) -> None:
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
        with Image.open(path.parent / "images" / image["filename"]) as picture:
            assert picture.size == (24, 24)
        assert [s["sentid"] for s in image["sentences"]] == image["sentids"]
        for sentence in image["sentences"]:
            situation = image["scene"]["situations"][sentence["situation"]]
            assert described(sentence["raw"])[:2] == (situation["kind"], situation["colour"])
            assert len(situation["box"]) == 4
    assert not list(path.parent.glob("*.part"))


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        write_scenes(tmp_path / name, 2, 1, 0, seed=seed, options=SMALL)
    files = [file.relative_to(tmp_path / "one") for file in (tmp_path / "one").rglob("*.*")]
    assert len(files) == 4
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
        assert (tmp_path / "one" / file).read_bytes() != (tmp_path / "three" / file).read_bytes()


def test_more_pictures_leave_the_first_ones_as_they_are(tmp_path: Path) -> None:
    few = json.loads(write_scenes(tmp_path / "few", 2, 1, 0, options=SMALL).read_text())
    many = json.loads(write_scenes(tmp_path / "many", 4, 1, 0, options=SMALL).read_text())
    by_name = {image["filename"]: image["scene"] for image in many["images"]}
    assert all(by_name[image["filename"]] == image["scene"] for image in few["images"])


def test_a_complete_folder_is_left_alone_and_a_torn_one_is_mended(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("situations", 0),
        ("situations", 7),
        ("situations", True),
        ("captions", 0),
        ("size", 8),
        ("size", 96.0),
        ("variety", "huge"),
        ("backgrounds", ()),
        ("backgrounds", ("moon",)),
    ],
)
def test_bad_options_are_named(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=name):
        ScenesOptions(**{name: value})  # type: ignore[arg-type]


def test_bad_counts_and_sizes_are_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="val is -1"):
        write_scenes(tmp_path, val=-1)
    with pytest.raises(OptionError, match="seed"):
        write_scenes(tmp_path, seed=-1)
    with pytest.raises(OptionError, match="size is 3"):
        draw_scene(sample_scene(0), 3)
    assert not list(tmp_path.iterdir())
