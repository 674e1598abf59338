"""Backgrounds of scenes: sky, horizon, layered ground and small details.

Tones are soft so that actors stand out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import sin
from random import Random

import numpy as np
from PIL import Image, ImageDraw

from diverset.reproduce.scenes.palette import RGB, WHITE, mix
from diverset.reproduce.scenes.pen import Pen, Point

HORIZON = 0.25
"""Height at which the ground begins, from the top."""


@dataclass(frozen=True)
class Background:
    """The tones of a background, and what is drawn far away and close by."""

    sky: tuple[RGB, RGB]
    ground: tuple[RGB, RGB]
    far: RGB
    detail: RGB
    light: RGB
    """The sun or the moon."""
    horizon: Callable[[Pen, Random, "Background"], None]
    details: Callable[[Pen, Random, "Background"], None]


def draw_background(name: str, side: int, rng: Random) -> Image.Image:
    """A new canvas, `side` pixels wide and high."""
    style = STYLES[name]
    canvas = _gradient(style, side)
    pen = Pen(ImageDraw.Draw(canvas, "RGBA"), 0, 0, side)
    if rng.random() < 0.5:
        pen = pen.mirrored()
    x, y = rng.uniform(0.1, 0.9), rng.uniform(0.06, 0.12)
    for radius, alpha in ((0.13, 40), (0.095, 70), (0.06, 255)):
        pen.ellipse(x, y, radius, radius, (*style.light, alpha))
    style.horizon(pen, rng, style)
    for layer in range(4):
        base = HORIZON + 0.02 + layer * 0.2
        tone = mix(style.ground[0], style.ground[1], (layer + 0.4) / 3.6)
        _ridge(pen, rng, base, 0.028 + 0.006 * layer, tone)
    style.details(pen, rng, style)
    return canvas


def _gradient(style: Background, side: int) -> Image.Image:
    """The sky from top to horizon, the ground below it."""
    down = np.linspace(0.0, 1.0, side)[:, None]
    above = np.clip(down / HORIZON, 0.0, 1.0)
    sky = np.array(style.sky[0]) * (1 - above) + np.array(style.sky[1]) * above
    tone = np.where(down < HORIZON + 0.08, sky, np.array(style.ground[0]))
    column = Image.fromarray(np.round(tone).astype(np.uint8)[:, None, :])
    return column.resize((side, side), Image.Resampling.NEAREST)


def _ridge(pen: Pen, rng: Random, base: float, height: float, tone: RGB) -> None:
    """A rolling edge with everything below it in one tone, and a light rim."""
    phase, pace = rng.uniform(0.0, 6.3), rng.uniform(4.0, 7.5)
    edge: list[Point] = []
    for step in range(25):
        x = step / 24
        wave = sin(phase + pace * x) + 0.4 * sin(2.3 * phase + 2.1 * pace * x)
        edge.append((x, base + height * wave))
    pen.polygon([*edge, (1.0, 1.01), (0.0, 1.01)], tone)
    pen.line(edge, (*mix(tone, WHITE, 0.5), 110), 0.006)


def _hills(pen: Pen, rng: Random, style: Background) -> None:
    _clouds(pen, rng)
    for share, base in ((0.45, 0.17), (0.75, 0.21)):
        _ridge(pen, rng, base, 0.035, mix(style.sky[1], style.far, share))


def _clouds(pen: Pen, rng: Random) -> None:
    for _ in range(3):
        x, y, size = rng.uniform(0.0, 1.0), rng.uniform(0.03, 0.14), rng.uniform(0.03, 0.05)
        for shift, lift, grow in ((-1.2, 0.2, 0.7), (0.0, 0.0, 1.0), (1.2, 0.25, 0.75)):
            width = size * grow
            pen.ellipse(
                x + shift * size, y + lift * size, width * 1.3, width * 0.7, (255, 255, 255, 170)
            )


def _sea(pen: Pen, rng: Random, style: Background) -> None:
    _clouds(pen, rng)
    pen.rectangle(0.0, 0.15, 1.0, 0.34, style.far)
    pen.rectangle(0.0, 0.21, 1.0, 0.34, mix(style.far, WHITE, 0.25))
    for _ in range(9):
        x, y = rng.uniform(0.0, 0.95), rng.uniform(0.165, 0.25)
        pen.line([(x, y), (x + rng.uniform(0.03, 0.1), y)], (255, 255, 255, 150), 0.006)


def _peaks(pen: Pen, rng: Random, style: Background) -> None:
    for number in range(4):
        x, top = number * 0.3 + rng.uniform(-0.1, 0.14), rng.uniform(0.06, 0.13)
        wide = rng.uniform(0.16, 0.24)
        pen.polygon([(x - wide, 0.34), (x, top), (x + wide, 0.34)], style.far)
        cut = 0.06 / (0.34 - top)
        cap = [(x - wide * cut, top + 0.06), (x, top), (x + wide * cut, top + 0.06)]
        pen.polygon([*cap, (x, top + 0.04)], WHITE)


def _skyline(pen: Pen, rng: Random, style: Background) -> None:
    _clouds(pen, rng)
    for depth in (0.4, 1.0):
        left = -0.02
        while left < 1.0:
            wide, top = rng.uniform(0.06, 0.12), rng.uniform(0.05, 0.14) + 0.06 * (depth > 0.5)
            pen.rectangle(left, top, left + wide, 0.36, mix(style.sky[1], style.far, depth))
            if depth > 0.5:
                for row, column in product(range(3), range(2)):
                    x, y = left + wide * (0.22 + 0.34 * column), top + 0.02 + 0.03 * row
                    pen.rectangle(x, y, x + 0.014, y + 0.014, (255, 236, 170, 200))
            left += wide + rng.uniform(-0.01, 0.02)


def _starry(pen: Pen, rng: Random, style: Background) -> None:
    for _ in range(34):
        radius = rng.uniform(0.002, 0.006)
        pen.ellipse(rng.random(), rng.uniform(0.0, 0.22), radius, radius, (255, 248, 220, 220))
    for share, base in ((0.5, 0.18), (0.9, 0.22)):
        _ridge(pen, rng, base, 0.03, mix(style.sky[1], style.far, share))


def _tufts(pen: Pen, rng: Random, style: Background) -> None:
    """Blades of grass, some with a blossom."""
    for _ in range(26):
        x, y = rng.uniform(0.02, 0.98), rng.uniform(HORIZON + 0.06, 0.98)
        for lean in (-0.012, 0.0, 0.012):
            pen.line([(x, y), (x + lean, y - 0.022)], style.detail, 0.006)
        if rng.random() < 0.3:
            pen.ellipse(x, y - 0.026, 0.008, 0.008, (255, 250, 226))


def _specks(pen: Pen, rng: Random, style: Background) -> None:
    """Pebbles, shells, drifting snow."""
    for _ in range(34):
        x, y, size = rng.random(), rng.uniform(HORIZON + 0.05, 0.99), rng.uniform(0.004, 0.009)
        pen.ellipse(x, y, size * 1.6, size, style.detail)


def _paving(pen: Pen, rng: Random, style: Background) -> None:
    """Joints between stones."""
    for row in range(8):
        y = HORIZON + 0.09 + row * row * 0.011 + row * 0.012
        pen.line([(0.0, y), (1.0, y)], (*style.detail, 90), 0.004)
        for _ in range(5):
            x = rng.random()
            pen.line([(x, y), (x, y + 0.02 + row * 0.011)], (*style.detail, 90), 0.004)


def _leaves(pen: Pen, rng: Random, style: Background) -> None:
    """Fallen leaves."""
    for _ in range(30):
        x, y = rng.random(), rng.uniform(HORIZON + 0.05, 0.98)
        tone = mix(style.detail, (214, 152, 74), rng.random())
        lean = rng.uniform(-0.012, 0.012)
        pen.blob(
            [(x - 0.012, y + lean), (x, y - 0.007), (x + 0.012, y - lean), (x, y + 0.007)], tone
        )


STYLES = {
    "meadow": Background(
        ((150, 206, 240), (226, 242, 246)), ((198, 224, 156), (158, 202, 128)),
        (126, 178, 150), (126, 176, 100), (255, 240, 170), _hills, _tufts,
    ),
    "beach": Background(
        ((140, 206, 242), (236, 244, 240)), ((248, 232, 192), (238, 212, 158)),
        (92, 178, 206), (220, 190, 138), (255, 244, 190), _sea, _specks,
    ),
    "snow": Background(
        ((172, 206, 238), (240, 244, 250)), ((236, 243, 250), (212, 226, 242)),
        (150, 172, 204), (250, 253, 255), (255, 250, 222), _peaks, _specks,
    ),
    "night": Background(
        ((40, 48, 98), (98, 98, 156)), ((98, 112, 156), (74, 90, 136)),
        (62, 70, 122), (120, 136, 178), (252, 244, 206), _starry, _tufts,
    ),
    "city": Background(
        ((176, 208, 232), (248, 232, 218)), ((222, 218, 222), (198, 196, 208)),
        (142, 150, 178), (160, 158, 176), (255, 240, 196), _skyline, _paving,
    ),
    "autumn": Background(
        ((250, 222, 178), (254, 242, 218)), ((240, 214, 158), (220, 184, 126)),
        (204, 150, 108), (196, 108, 66), (255, 226, 150), _hills, _leaves,
    ),
    "desert": Background(
        ((246, 178, 158), (254, 226, 190)), ((248, 214, 168), (230, 180, 136)),
        (214, 142, 122), (206, 156, 118), (255, 236, 190), _hills, _specks,
    ),
}  # fmt: skip
"""Every background by its name in the vocabulary."""
