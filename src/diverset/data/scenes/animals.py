"""Drawings of the animals, facing right, feet at the bottom of the pen's unit square.

Knows one figure a function; where it stands and what it does is up to `picture`.
"""

from diverset.data.scenes.palette import CREAM, INK, SKIN, WHITE, Paint
from diverset.data.scenes.pen import Pen

NOSE = (236, 128, 140)
BEAK = (246, 160, 52)


def eye(pen: Pen, x: float, y: float, asleep: bool, size: float = 0.04) -> None:
    """An open eye with a glint, or a closed lid."""
    if asleep:
        pen.curve([(x - size, y), (x, y + size * 0.8), (x + size, y)], INK, 0.028)
        return
    pen.ellipse(x, y, size, size * 1.2, INK)
    pen.ellipse(x + size * 0.3, y - size * 0.4, size * 0.36, size * 0.36, WHITE)


def cat(pen: Pen, paint: Paint, asleep: bool) -> None:
    """Sitting, with pointed ears and a curled tail."""
    tail = [(0.34, 0.92), (0.12, 0.88), (0.06, 0.64), (0.18, 0.5)]
    pen.curve(tail, paint.edge, 0.12)
    pen.curve(tail, paint.base, 0.08)
    body = [(0.3, 0.98), (0.28, 0.74), (0.42, 0.52), (0.66, 0.52), (0.78, 0.74), (0.77, 0.98)]
    pen.blob(body, paint.base, paint.edge)
    pen.ellipse(0.56, 0.8, 0.12, 0.16, paint.light)
    for side in (-1, 1):
        pen.polygon(
            [(0.57 + side * 0.25, 0.36), (0.57 + side * 0.24, 0.03), (0.57 + side * 0.04, 0.2)],
            paint.base,
            paint.edge,
        )
        pen.polygon(
            [(0.57 + side * 0.2, 0.28), (0.57 + side * 0.2, 0.11), (0.57 + side * 0.1, 0.2)], NOSE
        )
        pen.ellipse(0.56 + side * 0.13, 0.965, 0.09, 0.045, paint.base, paint.edge)
    pen.ellipse(0.57, 0.37, 0.28, 0.22, paint.base, paint.edge)
    pen.ellipse(0.57, 0.45, 0.13, 0.09, paint.light)
    for side in (-1, 1):
        eye(pen, 0.57 + side * 0.12, 0.35, asleep)
        pen.line([(0.57 + side * 0.18, 0.45), (0.57 + side * 0.34, 0.43)], paint.edge, 0.012)
    pen.ellipse(0.57, 0.42, 0.03, 0.02, NOSE)


def dog(pen: Pen, paint: Paint, asleep: bool) -> None:
    """Standing, with a hanging ear and a raised tail."""
    pen.curve([(0.14, 0.56), (0.04, 0.42), (0.06, 0.26)], paint.edge, 0.11)
    pen.curve([(0.14, 0.56), (0.04, 0.42), (0.06, 0.26)], paint.base, 0.07)
    for x in (0.22, 0.6):
        pen.rectangle(x, 0.7, x + 0.1, 0.97, paint.dark, paint.edge)
    body = [(0.1, 0.6), (0.2, 0.48), (0.6, 0.48), (0.74, 0.58), (0.7, 0.78), (0.16, 0.8)]
    pen.blob(body, paint.base, paint.edge)
    for x in (0.13, 0.52):
        pen.rectangle(x, 0.72, x + 0.11, 0.98, paint.base, paint.edge)
    pen.ellipse(0.68, 0.36, 0.21, 0.2, paint.base, paint.edge)
    pen.ellipse(0.86, 0.43, 0.13, 0.1, paint.light, paint.edge)
    pen.ellipse(0.94, 0.38, 0.045, 0.035, INK)
    ear = [(0.5, 0.2), (0.62, 0.22), (0.6, 0.42), (0.5, 0.54), (0.42, 0.42)]
    pen.blob(ear, paint.dark, paint.edge)
    eye(pen, 0.73, 0.31, asleep)
    pen.polygon([(0.54, 0.53), (0.74, 0.53), (0.74, 0.58), (0.54, 0.58)], (94, 200, 190))


def rabbit(pen: Pen, paint: Paint, asleep: bool) -> None:
    """Sitting, with long ears and a round tail."""
    pen.ellipse(0.16, 0.82, 0.1, 0.1, CREAM, paint.edge)
    body = [(0.18, 0.92), (0.2, 0.66), (0.42, 0.52), (0.68, 0.62), (0.78, 0.96), (0.4, 0.99)]
    pen.blob(body, paint.base, paint.edge)
    for lean in (-0.1, 0.06):
        ear = [(0.56 + lean, 0.36), (0.5 + lean, 0.12), (0.58 + lean, 0.01), (0.66 + lean, 0.34)]
        pen.blob(ear, paint.base, paint.edge)
        pen.curve([(0.58 + lean, 0.28), (0.57 + lean, 0.1)], NOSE, 0.045)
    pen.ellipse(0.64, 0.46, 0.22, 0.18, paint.base, paint.edge)
    pen.ellipse(0.76, 0.52, 0.09, 0.07, paint.light)
    eye(pen, 0.7, 0.42, asleep)
    pen.ellipse(0.84, 0.48, 0.025, 0.02, NOSE)
    pen.ellipse(0.42, 0.84, 0.16, 0.13, paint.dark)
    pen.ellipse(0.62, 0.96, 0.16, 0.04, paint.base, paint.edge)


def snail(pen: Pen, paint: Paint, asleep: bool) -> None:
    """A spiral shell in the colour, a pale body and two feelers."""
    body = [(0.02, 0.97), (0.2, 0.86), (0.62, 0.86), (0.76, 0.56), (0.94, 0.56), (0.96, 0.8)]
    pen.blob([*body, (0.84, 0.98)], SKIN, (140, 106, 82))
    for tip in (0.8, 0.98):
        pen.line([(0.86, 0.6), (tip, 0.38)], (140, 106, 82), 0.03)
        pen.ellipse(tip, 0.36, 0.035, 0.035, INK)
    pen.ellipse(0.4, 0.58, 0.34, 0.32, paint.base, paint.edge)
    spiral = [(0.66, 0.66), (0.6, 0.38), (0.36, 0.34), (0.2, 0.56), (0.32, 0.78), (0.52, 0.72)]
    pen.curve([*spiral, (0.52, 0.54), (0.4, 0.5), (0.36, 0.6)], paint.edge, 0.045)
    pen.ellipse(0.3, 0.4, 0.07, 0.05, paint.light)
    eye(pen, 0.87, 0.68, asleep, 0.03)


def elephant(pen: Pen, paint: Paint, asleep: bool) -> None:
    """Heavy, with a trunk and a large ear."""
    pen.curve([(0.08, 0.5), (0.02, 0.62), (0.04, 0.72)], paint.edge, 0.035)
    for x in (0.2, 0.52):
        pen.rectangle(x, 0.7, x + 0.14, 0.96, paint.dark, paint.edge)
    trunk = [(0.8, 0.42), (0.92, 0.6), (0.88, 0.84), (0.97, 0.86)]
    pen.curve(trunk, paint.edge, 0.15)
    pen.curve(trunk, paint.base, 0.105)
    body = [(0.06, 0.62), (0.14, 0.36), (0.4, 0.28), (0.66, 0.4), (0.7, 0.76), (0.1, 0.82)]
    pen.blob(body, paint.base, paint.edge)
    for x in (0.1, 0.42):
        pen.rectangle(x, 0.74, x + 0.15, 0.98, paint.base, paint.edge)
    pen.ellipse(0.72, 0.38, 0.2, 0.22, paint.base, paint.edge)
    pen.polygon([(0.78, 0.58), (0.9, 0.72), (0.74, 0.62)], WHITE, paint.edge)
    ear = [(0.64, 0.2), (0.66, 0.44), (0.52, 0.64), (0.38, 0.5), (0.42, 0.24)]
    pen.blob(ear, paint.light, paint.edge)
    eye(pen, 0.78, 0.36, asleep)


def bird(pen: Pen, paint: Paint, asleep: bool) -> None:
    """Flying, wings up."""
    pen.polygon([(0.2, 0.56), (0.0, 0.42), (0.02, 0.62)], paint.dark, paint.edge)
    pen.blob([(0.5, 0.52), (0.5, 0.2), (0.66, 0.04), (0.72, 0.3), (0.66, 0.52)], paint.dark)
    body = [(0.1, 0.56), (0.34, 0.42), (0.66, 0.38), (0.84, 0.52), (0.7, 0.76), (0.36, 0.74)]
    pen.blob(body, paint.base, paint.edge)
    pen.ellipse(0.54, 0.68, 0.17, 0.07, paint.light)
    pen.polygon([(0.9, 0.4), (1.0, 0.47), (0.9, 0.54)], BEAK, (176, 104, 36))
    pen.ellipse(0.78, 0.45, 0.16, 0.15, paint.base, paint.edge)
    wing = [(0.32, 0.56), (0.18, 0.24), (0.24, 0.06), (0.46, 0.2), (0.6, 0.54), (0.46, 0.6)]
    pen.blob(wing, paint.light, paint.edge)
    eye(pen, 0.82, 0.42, asleep)


def butterfly(pen: Pen, paint: Paint, asleep: bool) -> None:
    """Four wings seen from above."""
    for side in (-1, 1):
        upper = [(0.5, 0.5), (0.5 + side * 0.16, 0.2), (0.5 + side * 0.42, 0.1)]
        pen.blob(
            [*upper, (0.5 + side * 0.46, 0.4), (0.5 + side * 0.2, 0.56)], paint.base, paint.edge
        )
        lower = [(0.5, 0.54), (0.5 + side * 0.28, 0.56), (0.5 + side * 0.36, 0.78)]
        pen.blob([*lower, (0.5 + side * 0.18, 0.9)], paint.dark, paint.edge)
        pen.ellipse(0.5 + side * 0.3, 0.3, 0.08, 0.09, paint.light)
        pen.ellipse(0.5 + side * 0.2, 0.72, 0.05, 0.06, paint.light)
        pen.curve([(0.5, 0.26), (0.5 + side * 0.06, 0.12), (0.5 + side * 0.14, 0.08)], INK, 0.022)
    pen.ellipse(0.5, 0.52, 0.05, 0.28, INK)
    pen.ellipse(0.5, 0.25, 0.065, 0.065, INK)


def fish(pen: Pen, paint: Paint, asleep: bool) -> None:
    """Seen from the side, with a fan tail."""
    tail = [(0.26, 0.6), (0.0, 0.34), (0.06, 0.6), (0.0, 0.86)]
    pen.polygon(tail, paint.dark, paint.edge)
    pen.blob([(0.36, 0.42), (0.48, 0.18), (0.72, 0.3), (0.72, 0.44)], paint.dark, paint.edge)
    body = [(0.2, 0.6), (0.4, 0.36), (0.7, 0.34), (0.97, 0.58), (0.7, 0.86), (0.4, 0.84)]
    pen.blob(body, paint.base, paint.edge)
    pen.ellipse(0.56, 0.76, 0.2, 0.07, paint.light)
    for x in (0.42, 0.56):
        pen.curve([(x, 0.44), (x + 0.06, 0.58), (x, 0.74)], paint.light, 0.05)
    pen.blob([(0.5, 0.62), (0.42, 0.74), (0.56, 0.76), (0.64, 0.64)], paint.dark, paint.edge)
    eye(pen, 0.8, 0.52, asleep, 0.045)
    pen.curve([(0.84, 0.68), (0.88, 0.7), (0.93, 0.66)], paint.edge, 0.024)
