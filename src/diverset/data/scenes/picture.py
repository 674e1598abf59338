"""From a scene to pixels.

Knows how actor and companion stand to each other for every action, and composes background,
shadows, figures and marks of motion. The figures draw themselves.
"""

from math import ceil
from random import Random

from PIL import Image, ImageDraw

from diverset.data.scenes import animals, machines, marks
from diverset.data.scenes.backgrounds import draw_background
from diverset.data.scenes.companions import COMPANION_FIGURES, HEIGHTS, canopy
from diverset.data.scenes.options import check_whole
from diverset.data.scenes.palette import CREAM, INK, RGB, WOOD_DARK, paint
from diverset.data.scenes.pen import Pen
from diverset.data.scenes.scene import Scene, Situation
from diverset.data.scenes.vocabulary import KIND

FIGURES = {
    "cat": animals.cat,
    "fish": animals.fish,
    "car": machines.car,
    "bird": animals.bird,
    "house": machines.house,
    "balloon": machines.balloon,
    "snail": animals.snail,
    "boat": machines.boat,
    "dog": animals.dog,
    "tree": machines.tree,
    "rocket": machines.rocket,
    "rabbit": animals.rabbit,
    "bicycle": machines.bicycle,
    "butterfly": animals.butterfly,
    "elephant": animals.elephant,
    "robot": machines.robot,
}

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
"""Where a load rests on an actor, in the figure's unit square."""

GROUND = 0.93
"""Where feet stand in a situation's box."""

_ROOM_ALONE = 0.74

_FINE = 288
"""Pixels that the canvas has at least before it is scaled down."""


def draw_scene(scene: Scene, size: int) -> Image.Image:
    """Paint a scene, `size` pixels wide and high.

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
        mirrored = rng.random() < 0.5
        pen = Pen(draw, left * side, top * side, (right - left) * side, mirrored)
        draw_situation(pen, situation, ink)
    return canvas.reduce(factor)


def draw_situation(pen: Pen, situation: Situation, ink: RGB) -> None:
    """Paint one situation into the pen's square."""
    habitat = KIND[situation.kind].habitat
    if situation.action == "over" or (habitat == "air" and situation.action == "carry"):
        _aloft(pen, situation)
    elif situation.action == "carry":
        _carrying(pen, situation)
    elif situation.action == "on":
        _on(pen, situation)
    elif situation.action == "under":
        _under(pen, situation)
    elif situation.action == "beside":
        _beside(pen, situation)
    else:
        _alone(pen, situation, ink)


def _side(situation: Situation, room: float) -> float:
    """How large one figure is when its situation gives it so much room."""
    if situation.count > 1:
        return room * 0.52
    return room * 0.68 if situation.size == "small" else room


def _actors(pen: Pen, situation: Situation, centre: float, base: float, room: float) -> None:
    """The actor, or two smaller ones side by side, within `room` of the width.

    What swims gets its pond first; all others get a shadow on the ground.
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
    for middle in middles:
        _actor(pen.at(middle, base, side), situation)


def _actor(pen: Pen, situation: Situation) -> None:
    FIGURES[situation.kind](pen, paint(situation.colour), situation.action == "sleep")


def _companion(pen: Pen, name: str, centre: float, base: float, side: float) -> None:
    marks.shadow(pen, centre, base, side * 0.45)
    COMPANION_FIGURES[name](pen.at(centre, base, side))


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
        corner = pen.at(min(0.84, centre + reach * 0.92), max(0.31, base - side * 0.92), 0.3)
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
        canopy(pen.at(0.5, 0.76, 0.76))
    elif situation.companion == "rainbow":
        COMPANION_FIGURES["rainbow"](pen.at(0.5, 0.7, 0.98))
    else:
        COMPANION_FIGURES[situation.companion](pen.at(0.5, 0.4, 0.4))
    _actors(pen, situation, 0.46, base, 0.54 if situation.count == 1 else 0.72)


def _on(pen: Pen, situation: Situation) -> None:
    side = 0.46
    _companion(pen, situation.companion, 0.5, 0.96, side)
    base = 0.98 - side * HEIGHTS[situation.companion]
    _actors(pen, situation, 0.5, base, min(0.54, base))


def _carrying(pen: Pen, situation: Situation) -> None:
    load = 0.36
    x, y = BACKS[situation.kind]
    room = 0.62
    side = _side(situation, room)
    _actors(pen, situation, 0.5, GROUND, room)
    base = GROUND - side * (1.0 - y) + 0.02
    centre = 0.5 + (x - 0.5) * side
    load = min(load, base)
    COMPANION_FIGURES[situation.companion](pen.at(max(load / 2, centre), base, load))


def _aloft(pen: Pen, situation: Situation) -> None:
    """In the air: over a companion on the ground, or with it on a string."""
    room = 0.53 if situation.count == 1 else 0.86
    if situation.action == "over":
        _companion(pen, situation.companion, 0.5, 0.97, 0.37)
    else:
        marks.shadow(pen, 0.5, 0.96, 0.16)
        for spread in (-0.11, 0.11):
            pen.line([(0.5 + spread, 0.4), (0.5 + spread * 0.5, 0.68)], WOOD_DARK, 0.02)
        COMPANION_FIGURES[situation.companion](pen.at(0.5, 0.92, 0.3))
    _actors(pen, situation, 0.5, 0.54, room)
