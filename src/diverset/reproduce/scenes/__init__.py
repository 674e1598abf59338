"""Scenes: a generated dataset of images that show several separate situations.

Every caption describes exactly one situation of its image, and different images share parts of
situations. A caption therefore matches only a part of an image: the ambiguity that embedding sets
are made for, in any amount, with nothing to download.

    write_scenes("scenes", train=2000)          images and captions on disk
    sample_scene(seed), draw_scene(scene, 384)  one image in memory
"""

from diverset.reproduce.scenes.dataset import (
    SCENES_FILE,
    captions_of,
    write_default_scenes,
    write_scenes,
)
from diverset.reproduce.scenes.drawing import draw_scene
from diverset.reproduce.scenes.options import ScenesOptions
from diverset.reproduce.scenes.scene import Scene, Situation, possible_situations, sample_scene
from diverset.reproduce.scenes.sentences import describe

__all__ = [
    "SCENES_FILE",
    "Scene",
    "ScenesOptions",
    "Situation",
    "captions_of",
    "describe",
    "draw_scene",
    "possible_situations",
    "sample_scene",
    "write_default_scenes",
    "write_scenes",
]
