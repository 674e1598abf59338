"""The dataset on disk: pictures, and captions in the format of Karpathy's splits.

Knows files. The same seed and options give the same captions and pixels; the JSON is written
last and in one step, so a folder that has it is complete.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, astuple
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from diverset.data.files import write_durably
from diverset.data.scenes.options import ScenesOptions, check_whole
from diverset.data.scenes.picture import draw_scene
from diverset.data.scenes.scene import Scene, sample_scene
from diverset.data.scenes.sentences import describe

VERSION = 1
"""Changes whenever the same seed would give another caption or pixel."""

FILE_NAME = "dataset_scenes.json"
SPLITS = ("train", "val", "test")


def write_scenes(
    folder: str | Path,
    train: int = 2000,
    val: int = 500,
    test: int = 500,
    seed: int = 0,
    options: ScenesOptions | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Write a dataset of scenes, or leave it alone when the folder has it already.

    A combination of situations belongs to one split only, whatever the seed or the number of
    pictures. Raising `train` therefore adds pictures and changes none.

    Args:
        folder: where `images/` and `dataset_scenes.json` go; created when missing.
        train: pictures to train on.
        val: pictures to choose a model with.
        test: pictures to report.
        seed: another seed gives other scenes.
        options: what the scenes look like.
        progress: called with the pictures done and the pictures asked for.

    Returns:
        The path of the JSON file.
    """
    options = options or ScenesOptions()
    counts = dict(zip(SPLITS, (train, val, test), strict=True))
    for split, count in counts.items():
        check_whole(split, count, 0, 1_000_000)
    check_whole("seed", seed, 0, 2**63 - 1)
    folder = Path(folder)
    target = folder / FILE_NAME
    recipe = {"version": VERSION, "seed": seed, "counts": counts, "options": _plain(options)}
    if _is_complete(target, recipe):
        return target
    target.unlink(missing_ok=True)  # it would describe pictures that are about to change
    (folder / "images").mkdir(parents=True, exist_ok=True)
    total, images = sum(counts.values()), list[dict[str, Any]]()
    for split, count in counts.items():
        for number in range(count):
            scene = split_scene(split, number, seed, options)
            record = _record(scene, split, number, len(images), options)
            draw_scene(scene, options.size).save(folder / "images" / record["filename"])
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


def split_scene(split: str, number: int, seed: int, options: ScenesOptions) -> Scene:
    """The scene that a dataset has at a place: the first of its seeds that is of the split."""
    rng = Random(f"{seed} {split} {number}")
    while True:
        scene = sample_scene(rng.getrandbits(48), options)
        if split_of(scene) == split:
            return scene


def captions_of(scene: Scene, number: int) -> list[tuple[str, int]]:
    """Captions with the index of the situation that each describes.

    Every situation is described once before one is described again. A situation that is
    described twice gets two different sentences.
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


def _plain(options: ScenesOptions) -> dict[str, Any]:
    return {**asdict(options), "backgrounds": list(options.backgrounds)}


def _is_complete(target: Path, recipe: dict[str, Any]) -> bool:
    """Whether the folder holds exactly this dataset, with all of its pictures."""
    try:
        stored = json.loads(target.read_text(encoding="utf-8"))
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError):
        return False
    if not isinstance(stored, dict) or stored.get("scenes") != recipe:
        return False
    folder = target.parent / "images"
    return all((folder / image["filename"]).is_file() for image in stored["images"])
