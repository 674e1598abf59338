"""Scenes: a dataset of drawn pictures in which several separate things happen.

Every picture holds a few situations, every caption describes exactly one of them, and pictures
share parts of situations. So a caption fits a picture through one part of it only: the
ambiguity that sets of embeddings are made for, in any amount, with nothing to download.

    write_scenes("scenes", train=2000)          pictures and captions on disk
    sample_scene(seed), draw_scene(scene, 384)  one picture in memory

Knows nothing of models or of training.
"""

from diverset.data.scenes.options import ScenesOptions
from diverset.data.scenes.picture import draw_scene
from diverset.data.scenes.scene import Scene, Situation, possible_situations, sample_scene
from diverset.data.scenes.sentences import describe
from diverset.data.scenes.write import captions_of, write_scenes

__all__ = [
    "Scene",
    "ScenesOptions",
    "Situation",
    "captions_of",
    "describe",
    "draw_scene",
    "possible_situations",
    "sample_scene",
    "write_scenes",
]
