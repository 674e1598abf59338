"""Drawings of things that people build, and of the tree, on the pen's unit square.

The same signature as the animals'; only the robot closes its eyes.
"""

from diverset.data.scenes.animals import eye
from diverset.data.scenes.palette import CREAM, GLASS, GOLD, INK, WOOD, WOOD_DARK, Paint
from diverset.data.scenes.pen import Pen

STEEL = (176, 184, 200)
STEEL_DARK = (104, 112, 132)


def car(pen: Pen, paint: Paint, asleep: bool) -> None:
    """A round little car."""
    cabin = [(0.2, 0.6), (0.3, 0.34), (0.62, 0.32), (0.78, 0.6)]
    pen.blob([(0.16, 0.66), *cabin, (0.8, 0.66)], paint.base, paint.edge)
    body = [(0.03, 0.72), (0.1, 0.58), (0.5, 0.56), (0.88, 0.6), (0.98, 0.74), (0.94, 0.9)]
    pen.blob([*body, (0.06, 0.9)], paint.base, paint.edge)
    pen.polygon([(0.27, 0.57), (0.34, 0.41), (0.46, 0.4), (0.46, 0.57)], GLASS, paint.edge)
    pen.polygon([(0.51, 0.57), (0.51, 0.4), (0.6, 0.41), (0.7, 0.57)], GLASS, paint.edge)
    pen.line([(0.08, 0.76), (0.92, 0.76)], paint.light, 0.03)
    pen.ellipse(0.93, 0.69, 0.045, 0.045, GOLD, paint.edge)
    for x in (0.26, 0.74):
        pen.ellipse(x, 0.87, 0.125, 0.125, INK)
        pen.ellipse(x, 0.87, 0.06, 0.06, STEEL)


def bicycle(pen: Pen, paint: Paint, asleep: bool) -> None:
    """Two large wheels and a frame in the colour."""
    for x in (0.23, 0.77):
        pen.ring(x, 0.76, 0.23, INK, 0.05)
        pen.ring(x, 0.76, 0.18, STEEL, 0.022)
        for far in (0.12, -0.12):
            pen.line([(x - 0.12, 0.76 - far), (x + 0.12, 0.76 + far)], STEEL, 0.015)
        pen.ellipse(x, 0.76, 0.04, 0.04, INK)
    frame = [(0.23, 0.76), (0.36, 0.44), (0.68, 0.44), (0.48, 0.76), (0.23, 0.76)]
    fork = [(0.77, 0.76), (0.66, 0.36), (0.66, 0.3), (0.8, 0.26)]
    for colour, width in ((paint.edge, 0.115), (paint.base, 0.075)):
        pen.line(frame, colour, width)
        pen.line([(0.48, 0.76), (0.34, 0.36)], colour, width)
        pen.line(fork, colour, width)
    pen.blob([(0.2, 0.34), (0.34, 0.29), (0.48, 0.33), (0.34, 0.4)], INK)


def boat(pen: Pen, paint: Paint, asleep: bool) -> None:
    """A hull in the colour under a sail with a stripe of it."""
    pen.line([(0.46, 0.74), (0.46, 0.05)], WOOD_DARK, 0.04)
    pen.polygon([(0.52, 0.1), (0.52, 0.62), (0.94, 0.62)], CREAM, (150, 140, 130))
    pen.polygon([(0.52, 0.36), (0.52, 0.5), (0.85, 0.5), (0.735, 0.36)], paint.base)
    pen.polygon([(0.4, 0.16), (0.4, 0.62), (0.1, 0.62)], paint.light, paint.edge)
    pen.polygon([(0.46, 0.03), (0.46, 0.12), (0.62, 0.075)], paint.base, paint.edge)
    hull = [(0.02, 0.68), (0.98, 0.68), (0.84, 0.95), (0.18, 0.95)]
    pen.polygon(hull, paint.base, paint.edge)
    pen.line([(0.08, 0.76), (0.92, 0.76)], paint.light, 0.035)


def balloon(pen: Pen, paint: Paint, asleep: bool) -> None:
    """A hot-air balloon with a basket."""
    for x in (0.42, 0.58):
        pen.line([(x, 0.66), (0.5 + (x - 0.5) * 0.9, 0.84)], WOOD_DARK, 0.018)
    envelope = [(0.5, 0.01), (0.78, 0.1), (0.86, 0.34), (0.74, 0.56), (0.58, 0.72), (0.42, 0.72)]
    pen.blob([*envelope, (0.26, 0.56), (0.14, 0.34), (0.22, 0.1)], paint.base, paint.edge)
    pen.blob([(0.5, 0.02), (0.64, 0.32), (0.54, 0.7), (0.46, 0.7), (0.36, 0.32)], paint.light)
    pen.curve([(0.5, 0.01), (0.36, 0.32), (0.46, 0.71)], paint.dark, 0.02)
    pen.curve([(0.5, 0.01), (0.64, 0.32), (0.54, 0.71)], paint.dark, 0.02)
    pen.rectangle(0.4, 0.83, 0.6, 0.98, WOOD, WOOD_DARK)
    pen.line([(0.4, 0.86), (0.6, 0.86)], WOOD_DARK, 0.025)


def rocket(pen: Pen, paint: Paint, asleep: bool) -> None:
    """Upright, with fins, a porthole and a flame."""
    pen.blob([(0.4, 0.8), (0.6, 0.8), (0.58, 0.9), (0.5, 1.0), (0.42, 0.9)], (255, 150, 60))
    pen.blob([(0.45, 0.8), (0.55, 0.8), (0.5, 0.92)], (255, 226, 120))
    for side in (-1, 1):
        fin = [(0.5 + side * 0.16, 0.52), (0.5 + side * 0.36, 0.74), (0.5 + side * 0.34, 0.88)]
        pen.polygon([*fin, (0.5 + side * 0.14, 0.78)], paint.dark, paint.edge)
    body = [(0.5, 0.0), (0.67, 0.24), (0.7, 0.54), (0.62, 0.8), (0.38, 0.8), (0.3, 0.54)]
    pen.blob([*body, (0.33, 0.24)], paint.base, paint.edge)
    pen.blob([(0.5, 0.01), (0.6, 0.14), (0.58, 0.18), (0.42, 0.18), (0.4, 0.14)], CREAM)
    pen.curve([(0.38, 0.3), (0.36, 0.5), (0.4, 0.7)], paint.light, 0.05)
    pen.ellipse(0.51, 0.4, 0.11, 0.11, CREAM, paint.edge)
    pen.ellipse(0.51, 0.4, 0.07, 0.07, (110, 180, 222))


def house(pen: Pen, paint: Paint, asleep: bool) -> None:
    """Walls and roof in two shades of the colour."""
    pen.rectangle(0.68, 0.1, 0.8, 0.38, (170, 120, 100), (104, 70, 62))
    pen.rectangle(0.14, 0.44, 0.86, 0.98, paint.light, paint.edge)
    pen.polygon([(0.02, 0.48), (0.5, 0.06), (0.98, 0.48)], paint.base, paint.edge)
    pen.line([(0.26, 0.36), (0.74, 0.36)], paint.dark, 0.022)
    pen.line([(0.38, 0.25), (0.62, 0.25)], paint.dark, 0.022)
    pen.rectangle(0.54, 0.64, 0.74, 0.98, WOOD, WOOD_DARK)
    pen.ellipse(0.69, 0.82, 0.02, 0.02, GOLD)
    pen.rectangle(0.24, 0.62, 0.44, 0.82, (255, 232, 150), WOOD_DARK)
    pen.line([(0.34, 0.63), (0.34, 0.81)], WOOD_DARK, 0.02)
    pen.line([(0.25, 0.72), (0.43, 0.72)], WOOD_DARK, 0.02)


def tree(pen: Pen, paint: Paint, asleep: bool) -> None:
    """A round crown in the colour on a brown trunk."""
    trunk = [(0.43, 0.5), (0.57, 0.5), (0.58, 0.84), (0.68, 0.98), (0.32, 0.98), (0.42, 0.84)]
    pen.polygon(trunk, WOOD, WOOD_DARK)
    crown = [(0.5, 0.02), (0.74, 0.1), (0.88, 0.3), (0.86, 0.54), (0.64, 0.68), (0.36, 0.68)]
    pen.blob([*crown, (0.14, 0.54), (0.12, 0.3), (0.26, 0.1)], paint.base, paint.edge)
    pen.ellipse(0.64, 0.5, 0.15, 0.11, paint.dark)
    pen.ellipse(0.34, 0.26, 0.14, 0.12, paint.light)
    pen.ellipse(0.64, 0.24, 0.07, 0.06, paint.light)
    pen.ellipse(0.3, 0.5, 0.06, 0.05, paint.dark)


def robot(pen: Pen, paint: Paint, asleep: bool) -> None:
    """A box on two feet with an antenna."""
    pen.line([(0.5, 0.14), (0.5, 0.03)], STEEL_DARK, 0.03)
    pen.ellipse(0.5, 0.045, 0.045, 0.045, GOLD, STEEL_DARK)
    for side in (-1, 1):
        arm = [(0.5 + side * 0.26, 0.56), (0.5 + side * 0.38, 0.62), (0.5 + side * 0.38, 0.76)]
        pen.line(arm, STEEL_DARK, 0.075)
        pen.rectangle(0.5 + side * 0.14 - 0.07, 0.84, 0.5 + side * 0.14 + 0.07, 0.98, STEEL_DARK)
    pen.rectangle(0.24, 0.48, 0.76, 0.87, paint.base, paint.edge)
    pen.rectangle(0.34, 0.56, 0.66, 0.76, CREAM, paint.edge)
    pen.line([(0.38, 0.66), (0.46, 0.66), (0.5, 0.6), (0.55, 0.71), (0.62, 0.66)], NEON, 0.025)
    pen.rectangle(0.2, 0.13, 0.8, 0.45, paint.base, paint.edge)
    pen.rectangle(0.27, 0.19, 0.73, 0.39, GLASS, paint.edge)
    for x in (0.39, 0.61):
        eye(pen, x, 0.28, asleep, 0.045)


NEON = (228, 88, 110)
