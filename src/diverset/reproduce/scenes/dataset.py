"""The dataset on disk: images, and captions in the format of Karpathy's splits.

The same seed and options give the same captions and pixels. The JSON file is written last and
atomically.
"""

import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict, astuple
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from diverset.errors import OptionError
from diverset.reproduce.scenes.drawing import draw_scene
from diverset.reproduce.scenes.options import ScenesOptions, check_whole
from diverset.reproduce.scenes.scene import Scene, Situation, possible_situations, sample_scene
from diverset.reproduce.scenes.sentences import describe
from diverset.runtime.files import write_durably
from diverset.runtime.progress import TaskCallback

VERSION = 1
"""To be raised when a seed gives other captions or pixels than before."""

SCENES_FILE = "dataset_scenes.json"
SPLITS = ("train", "val", "test")


def write_default_scenes(
    folder: str | Path, progress: TaskCallback | None = None, draw: bool = True
) -> Path:
    """The dataset of recipes/scenes.yaml."""
    options = ScenesOptions(size=96, variety="medium")
    return write_scenes(folder, 2000, 200, 500, options=options, progress=progress, draw=draw)


def write_scenes(
    folder: str | Path,
    train: int = 2000,
    val: int = 500,
    test: int = 500,
    seed: int = 0,
    options: ScenesOptions | None = None,
    progress: TaskCallback | None = None,
    draw: bool = True,
) -> Path:
    """Write a dataset of scenes; a folder that already holds it is not changed.

    A combination of situations belongs to one split only, whatever the seed or the number of
    images. Raising `train` therefore adds images and changes none.

    Args:
        folder: where `images/` and `dataset_scenes.json` go; created if missing.
        train, val, test: numbers of images.
        seed: of all scenes.
        options: what the scenes look like.
        progress: called after each image.
        draw: False writes only the captions.

    Returns:
        The path of the JSON file.
    """
    options = options or ScenesOptions()
    counts = dict(zip(SPLITS, (train, val, test), strict=True))
    for split, count in counts.items():
        check_whole(split, count, 0, 1_000_000)
        if split != "train" and options.distinct:
            _check_distinct(split, count, options)
    check_whole("seed", seed, 0, 2**63 - 1)
    folder = Path(folder)
    target = folder / SCENES_FILE
    shown = {**asdict(options), "backgrounds": list(options.backgrounds)}
    recipe = {"version": VERSION, "seed": seed, "counts": counts, "options": shown}
    if _is_complete(target, recipe):
        return target
    target.unlink(missing_ok=True)  # it describes images that are about to change
    (folder / "images").mkdir(parents=True, exist_ok=True)
    total, images = sum(counts.values()), list[dict[str, Any]]()
    for split, count in counts.items():
        size = options.size if split == "train" else options.held_out_size or options.size
        for number, scene in enumerate(split_scenes(split, count, seed, options)):
            record = _record(scene, split, number, len(images), options)
            if draw:
                draw_scene(scene, size).save(folder / "images" / record["filename"])
            images.append(record)
            if progress:
                progress(len(images), total)
    content = {"dataset": "scenes", "scenes": recipe, "images": images}
    write_durably(target, json.dumps(content, separators=(",", ":")).encode())
    return target


def split_of(scene: Scene) -> str:
    """The only split that a scene's combination of situations may appear in.

    Half of the combinations belong to train, a quarter each to val and test.
    """
    key = json.dumps([astuple(situation) for situation in sorted(scene.situations)])
    return ("train", "train", "val", "test")[sha256(key.encode()).digest()[0] % 4]


def split_scenes(split: str, count: int, seed: int, options: ScenesOptions) -> Iterator[Scene]:
    """The scenes of a split; those of a held-out split share no situation if `distinct`."""
    distinct = options.distinct and split != "train"
    used: set[Situation] = set()
    scenes = (split_scene(split, number, seed, options) for number in itertools.count())
    for _ in range(count):
        scene = next(scene for scene in scenes if not (distinct and used & set(scene.situations)))
        used.update(scene.situations)
        yield scene


def split_scene(split: str, number: int, seed: int, options: ScenesOptions) -> Scene:
    """Scene `number` of a split: the first of its random seeds that belongs to the split."""
    rng = Random(f"{seed} {split} {number}")
    while True:
        scene = sample_scene(rng.getrandbits(48), options)
        if split_of(scene) == split:
            return scene


def captions_of(scene: Scene, number: int) -> list[tuple[str, int]]:
    """Captions with the index of the situation that each describes.

    Every situation is described once before one is described again. A situation that is
    described twice gets two different captions.
    """
    rng = Random(f"{scene.seed} captions")
    order = list(range(len(scene.situations)))
    rng.shuffle(order)
    captions: dict[str, int] = {}
    while len(captions) < number:
        index = order[len(captions) % len(order)]
        captions.setdefault(describe(scene.situations[index], rng), index)
    return list(captions.items())


def _record(
    scene: Scene, split: str, number: int, image: int, options: ScenesOptions
) -> dict[str, Any]:
    """One entry of `images`, as in Karpathy's files, with the situations added."""
    first = image * options.captions
    captions = captions_of(scene, options.captions)
    return {
        "imgid": image,
        "split": split,
        "filename": f"{split}_{number:06d}.png",
        "sentids": list(range(first, first + len(captions))),
        "sentences": [
            {
                "sentid": first + offset,
                "imgid": image,
                "raw": raw,
                "tokens": raw.rstrip(".").replace(",", "").lower().split(),
                "situation": index,
            }
            for offset, (raw, index) in enumerate(captions)
        ],
        "scene": {
            "seed": scene.seed,
            "background": scene.background,
            "situations": [
                {**asdict(situation), "box": list(box)}
                for situation, box in zip(scene.situations, scene.boxes, strict=True)
            ],
        },
    }


def _check_distinct(split: str, count: int, options: ScenesOptions) -> None:
    """Raise unless a good part of all situations would remain unused."""
    most = len(possible_situations(options.variety)) * 2 // 3 // options.situations
    if count > most:
        raise OptionError(
            f"{split} is {count}; variety {options.variety!r} has enough distinct situations for "
            f"{most} images. Use fewer images, more variety or distinct=False"
        )


def _is_complete(target: Path, recipe: dict[str, Any]) -> bool:
    """Whether the folder holds exactly this dataset, with all of its images."""
    try:
        stored = json.loads(target.read_text(encoding="utf-8"))
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError):
        return False
    if not isinstance(stored, dict) or stored.get("scenes") != recipe:
        return False
    folder = target.parent / "images"
    return all((folder / image["filename"]).is_file() for image in stored["images"])
