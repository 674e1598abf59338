"""Draw a scene: background, shadows, figures and marks of motion.

Each action has its own arrangement of actor and companion.
"""

from math import ceil
from random import Random

from PIL import Image, ImageDraw

from diverset.reproduce.scenes import marks
from diverset.reproduce.scenes.backgrounds import draw_background
from diverset.reproduce.scenes.figures import canopy, draw_figure
from diverset.reproduce.scenes.options import check_whole
from diverset.reproduce.scenes.palette import CREAM, INK, RGB, WOOD_DARK, shades_of
from diverset.reproduce.scenes.pen import Pen
from diverset.reproduce.scenes.scene import Scene, Situation
from diverset.reproduce.scenes.vocabulary import KIND

BACKS = {
    "cat": (0.5, 0.2),
    "fish": (0.5, 0.36),
    "car": (0.46, 0.36),
    "snail": (0.4, 0.28),
    "boat": (0.2, 0.7),
    "dog": (0.34, 0.5),
    "rabbit": (0.3, 0.6),
    "bicycle": (0.2, 0.36),
    "elephant": (0.3, 0.32),
    "robot": (0.5, 0.14),
}
"""Where a load is placed on an actor, in the figure's unit square."""

HEIGHTS = {"gift": 0.7, "mushroom": 0.92, "drum": 0.62, "table": 0.6}
"""Height, within its square, of each companion that an actor can stand on."""

GROUND = 0.93
"""Where feet stand in a situation's box."""

_ROOM_ALONE = 0.74

_FINE = 288
"""Minimum side of the canvas in pixels, before it is scaled down."""


def draw_scene(scene: Scene, size: int) -> Image.Image:
    """Draw a scene, `size` pixels wide and high.

    The canvas is at least twice as fine and then averaged, which smooths all edges.
    """
    check_whole("size", size, 16, 2048)
    factor = max(2, ceil(_FINE / size))
    side = size * factor
    rng = Random(f"{scene.seed} {scene.background}")
    canvas = draw_background(scene.background, side, rng)
    draw = ImageDraw.Draw(canvas, "RGBA")
    ink = CREAM if scene.background == "night" else INK
    for situation, (left, top, right, _) in zip(scene.situations, scene.boxes, strict=True):
        pen = Pen(draw, left * side, top * side, (right - left) * side)
        draw_situation(pen.mirrored() if rng.random() < 0.5 else pen, situation, ink)
    return canvas.reduce(factor)


def draw_situation(pen: Pen, situation: Situation, ink: RGB) -> None:
    """Draw one situation into the pen's square."""
    habitat = KIND[situation.kind].habitat
    arrange = {"over": _aloft, "carry": _carrying, "on": _on, "under": _under, "beside": _beside}
    if not situation.companion:
        _alone(pen, situation, ink)
    elif habitat == "air" and situation.action == "carry":
        _aloft(pen, situation)
    else:
        arrange[situation.action](pen, situation)


def _side(situation: Situation, room: float) -> float:
    """Size of one figure within the room of its situation."""
    if situation.count > 1:
        return room * 0.52
    return room * 0.68 if situation.size == "small" else room


def _actors(pen: Pen, situation: Situation, centre: float, base: float, room: float) -> None:
    """The actor, or two smaller ones side by side, within `room` of the width.

    Swimming actors get a pond; those on the ground get a shadow.
    """
    count = situation.count
    side = _side(situation, room)
    middles = [centre] if count == 1 else [centre - room * 0.25, centre + room * 0.25]
    habitat = KIND[situation.kind].habitat
    if habitat == "water":
        deep = 0.34 if situation.kind == "fish" else 0.16
        marks.pond(pen, centre, base + 0.03, max(0.3, room * 0.58), side * deep)
    elif habitat != "air":
        for middle in middles:
            marks.shadow(pen, middle, base, side * 0.5)
    shades, asleep = shades_of(situation.colour), situation.action == "sleep"
    for middle in middles:
        draw_figure(pen.inside(middle, base, side), situation.kind, shades, asleep)


def _companion(pen: Pen, name: str, centre: float, base: float, side: float) -> None:
    marks.shadow(pen, centre, base, side * 0.45)
    draw_figure(pen.inside(centre, base, side), name)


def _alone(pen: Pen, situation: Situation, ink: RGB) -> None:
    action = situation.action
    airborne = KIND[situation.kind].habitat == "air"
    base = 0.8 if airborne else GROUND
    centre = 0.58 if action == "race" else 0.45 if action in ("sleep", "sing") else 0.5
    room = _ROOM_ALONE if situation.count == 1 else 0.82
    side = _side(situation, room)
    middle, reach = base - side * 0.5, side / 2 if situation.count == 1 else room / 2
    if airborne:
        marks.shadow(pen, centre, 0.95, 0.2)
    if action == "shine":
        marks.glow(pen, centre, middle, min(0.48, 0.98 - middle, reach * 1.2))
    if action == "jump":
        marks.shadow(pen, centre, 0.95, reach * 0.8)
        marks.springs(pen, centre, 0.95, reach, ink)
        base -= 0.16
    _actors(pen, situation, centre, base, room)
    if action == "shine":
        marks.sparkles(pen, centre, middle, reach)
    elif action == "race":
        marks.streaks(pen, centre - reach, middle, side * 0.5, ink)
    elif action in ("sleep", "sing"):
        corner = pen.inside(min(0.84, centre + reach * 0.92), max(0.31, base - side * 0.92), 0.3)
        (marks.snores if action == "sleep" else marks.notes)(corner.unmirrored(), ink)


def _beside(pen: Pen, situation: Situation) -> None:
    room = 0.6 if situation.count == 1 else 0.68
    _actors(pen, situation, 0.31 if situation.count == 1 else 0.35, GROUND, room)
    _companion(pen, situation.companion, 0.81, GROUND + 0.03, 0.36)


def _under(pen: Pen, situation: Situation) -> None:
    airborne = KIND[situation.kind].habitat == "air"
    base = 0.92 if airborne else GROUND
    if airborne:
        marks.shadow(pen, 0.5, 0.96, 0.2)
    if situation.companion == "umbrella":
        pen.line([(0.92, 0.18), (0.92, 0.95)], WOOD_DARK, 0.028)
        pen.line([(0.5, 0.06), (0.92, 0.2)], WOOD_DARK, 0.02)
        canopy(pen.inside(0.5, 0.76, 0.76))
    else:
        inside = pen.inside(0.5, *((0.7, 0.98) if situation.companion == "rainbow" else (0.4, 0.4)))
        draw_figure(inside, situation.companion)
    _actors(pen, situation, 0.46, base, 0.54 if situation.count == 1 else 0.72)


def _on(pen: Pen, situation: Situation) -> None:
    side = 0.46
    _companion(pen, situation.companion, 0.5, 0.96, side)
    base = 0.98 - side * HEIGHTS[situation.companion]
    _actors(pen, situation, 0.5, base, min(0.54, base))


def _carrying(pen: Pen, situation: Situation) -> None:
    x, y = BACKS[situation.kind]
    room = 0.62
    side = _side(situation, room)
    _actors(pen, situation, 0.5, GROUND, room)
    base = GROUND - side * (1.0 - y) + 0.02
    centre = 0.5 + (x - 0.5) * side
    load = min(0.36, base)
    draw_figure(pen.inside(max(load / 2, centre), base, load), situation.companion)


def _aloft(pen: Pen, situation: Situation) -> None:
    """In the air: over a companion on the ground, or with it on a string."""
    room = 0.53 if situation.count == 1 else 0.86
    if situation.action == "over":
        _companion(pen, situation.companion, 0.5, 0.97, 0.37)
    else:
        marks.shadow(pen, 0.5, 0.96, 0.16)
        for spread in (-0.11, 0.11):
            pen.line([(0.5 + spread, 0.4), (0.5 + spread * 0.5, 0.68)], WOOD_DARK, 0.02)
        draw_figure(pen.inside(0.5, 0.92, 0.3), situation.companion)
    _actors(pen, situation, 0.5, 0.54, room)
