"""Draw actors and companions: those of figures.yaml, and those made of circles, here."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import cos, pi, sin
from typing import Any

import yaml
from PIL import ImageColor

from diverset.reproduce.scenes import palette
from diverset.reproduce.scenes.palette import CREAM, GOLD, INK, LEAF, TEAL, TEAL_DARK, WHITE
from diverset.reproduce.scenes.pen import Colour, Pen, Point, spikes

Shape = tuple[str, list[str], list[float], list[Point]]
"""Name, colours, width or size, points."""


@cache
def drawings() -> dict[str, list[Shape]]:
    """The shapes of every figure in figures.yaml."""
    text = files(__package__).joinpath("figures.yaml").read_text(encoding="utf-8")
    return {
        name: [_shape(*line.split()) for line in lines.splitlines()]
        for name, lines in yaml.safe_load(text).items()
    }


def _shape(name: str, *words: str) -> Shape:
    pairs = [word.split(",") for word in words if "," in word]
    others = [word for word in words if "," not in word]
    colours = [word for word in others if "." not in word]
    numbers = [float(word) for word in others if "." in word]
    return name, colours, numbers, [(float(x), float(y)) for x, y in pairs]


def draw_figure(
    pen: Pen, name: str, shades: Mapping[str, Colour] | None = None, asleep: bool = False
) -> None:
    """Draw a figure into the pen's square, an actor in the shades of its colour."""
    if name in CIRCULAR:
        return CIRCULAR[name](pen)
    named: Mapping[str, Any] = vars(palette) | {k.upper(): v for k, v in (shades or {}).items()}
    for shape, words, numbers, points in drawings()[name]:
        colours = [named.get(word.upper()) or ImageColor.getrgb(f"#{word}") for word in words]
        if shape == "eye":
            _eye(pen, *points[0], numbers[0], asleep)
        elif shape == "ring":
            pen.ring(*points[0], numbers[0], colours[0], numbers[1])
        elif shape in ("ellipse", "rectangle"):
            getattr(pen, shape)(*points[0], *points[1], *colours)
        else:
            getattr(pen, shape)(points, *colours, *numbers)


def _eye(pen: Pen, x: float, y: float, size: float, asleep: bool) -> None:
    """An open eye with a glint, or a closed lid."""
    if asleep:
        pen.curve([(x - size, y), (x, y + size * 0.8), (x + size, y)], INK, 0.028)
        return
    pen.ellipse(x, y, size, size * 1.2, INK)
    pen.ellipse(x + size * 0.3, y - size * 0.4, size * 0.36, size * 0.36, WHITE)


def flower(pen: Pen) -> None:
    """A daisy with two leaves."""
    pen.line([(0.5, 0.98), (0.5, 0.4)], (74, 134, 70), 0.07)
    pen.blob([(0.5, 0.86), (0.74, 0.6), (0.9, 0.64), (0.72, 0.86)], LEAF, (58, 104, 60))
    pen.blob([(0.5, 0.9), (0.26, 0.66), (0.1, 0.7), (0.28, 0.9)], LEAF, (58, 104, 60))
    for turn in range(8):
        angle = turn * pi / 4
        x, y = 0.5 + 0.21 * cos(angle), 0.3 + 0.21 * sin(angle)
        pen.ellipse(x, y, 0.11, 0.11, WHITE, (176, 172, 190))
    pen.ellipse(0.5, 0.3, 0.13, 0.13, GOLD, (190, 140, 40))


def umbrella(pen: Pen) -> None:
    """An open umbrella on a long stick."""
    pen.line([(0.5, 0.12), (0.5, 0.98)], palette.WOOD_DARK, 0.045)
    canopy(pen)


def canopy(pen: Pen) -> None:
    """The umbrella's upper part, over the top half of the square."""
    top = [(0.5 - 0.49 * cos(k * pi / 12), 0.5 - 0.42 * sin(k * pi / 12)) for k in range(13)]
    scallops = [(0.82, 0.43), (0.66, 0.5), (0.5, 0.43), (0.34, 0.5), (0.18, 0.43)]
    pen.polygon([*top, *scallops], TEAL, TEAL_DARK)
    pen.polygon([(0.5, 0.08), (0.66, 0.5), (0.5, 0.43), (0.34, 0.5)], CREAM)
    pen.polygon([*top, *scallops], (0, 0, 0, 0), TEAL_DARK)
    pen.line([(0.5, 0.08), (0.5, 0.03)], TEAL_DARK, 0.04)


def star(pen: Pen) -> None:
    """A five-pointed star."""
    pen.polygon(spikes(5, 0.5, 0.52, 0.46, 0.2, -pi / 2), GOLD, (184, 128, 36))
    pen.ellipse(0.44, 0.44, 0.06, 0.06, (255, 236, 170))


def rainbow(pen: Pen) -> None:
    """Five bands of a bow."""
    bands = ((232, 92, 92), (248, 168, 80), (252, 220, 110), LEAF, (88, 140, 214))
    turns = [k * pi / 16 for k in range(17)]
    for number, colour in enumerate(bands):
        radius = 0.46 - number * 0.055
        bow = [(0.5 - radius * cos(turn), 0.72 - radius * sin(turn)) for turn in turns]
        pen.line(bow, colour, 0.068)


CIRCULAR = {"flower": flower, "umbrella": umbrella, "star": star, "rainbow": rainbow}
