"""Drawings of the second objects, in colours of their own.

They stand on the bottom of the pen's unit square; those of the sky hang in it.
"""

from math import cos, pi, sin

from diverset.data.scenes.palette import CREAM, GOLD, INK, WHITE, WOOD, WOOD_DARK
from diverset.data.scenes.pen import Colour, Pen, Point

TEAL = (52, 158, 156)
TEAL_DARK = (28, 98, 104)
BERRY = (206, 62, 84)
BERRY_DARK = (122, 34, 58)
LEAF = (94, 160, 84)


def lamp(pen: Pen) -> None:
    """A street lamp, lit."""
    pen.ellipse(0.5, 0.2, 0.3, 0.2, (255, 226, 130, 90))
    pen.line([(0.5, 0.94), (0.5, 0.34)], INK, 0.085)
    pen.rectangle(0.34, 0.91, 0.66, 0.98, INK)
    pen.polygon([(0.32, 0.1), (0.68, 0.1), (0.6, 0.38), (0.4, 0.38)], (255, 220, 100), INK)
    pen.polygon([(0.26, 0.12), (0.5, 0.0), (0.74, 0.12)], INK)


def mushroom(pen: Pen) -> None:
    """A toadstool with pale dots."""
    stem = [(0.4, 0.5), (0.6, 0.5), (0.66, 0.94), (0.5, 0.99), (0.34, 0.94)]
    pen.blob(stem, CREAM, (150, 130, 116))
    cap = [(0.04, 0.56), (0.12, 0.24), (0.5, 0.06), (0.88, 0.24), (0.96, 0.56), (0.5, 0.62)]
    pen.blob(cap, BERRY, BERRY_DARK)
    for x, y, radius in (
        (0.34, 0.26, 0.09),
        (0.68, 0.3, 0.08),
        (0.5, 0.48, 0.07),
        (0.18, 0.46, 0.06),
    ):
        pen.ellipse(x, y, radius, radius * 0.85, CREAM)


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


def gift(pen: Pen) -> None:
    """A wrapped box with a bow."""
    pen.rectangle(0.1, 0.4, 0.9, 0.98, TEAL, TEAL_DARK)
    pen.rectangle(0.05, 0.28, 0.95, 0.46, (76, 180, 176), TEAL_DARK)
    pen.rectangle(0.42, 0.28, 0.58, 0.98, GOLD)
    for side in (-1, 1):
        loop = [(0.5, 0.28), (0.5 + side * 0.26, 0.24), (0.5 + side * 0.22, 0.06)]
        pen.blob(loop, GOLD, (176, 128, 36))


def flag(pen: Pen) -> None:
    """A striped flag on a pole."""
    pen.line([(0.2, 0.98), (0.2, 0.06)], WOOD_DARK, 0.07)
    for stripe, colour in enumerate((BERRY, WHITE, TEAL)):
        top = 0.08 + stripe * 0.15
        wave = [(0.23, top), (0.58, top + 0.05), (0.95, top), (0.95, top + 0.15)]
        pen.polygon([*wave, (0.58, top + 0.2), (0.23, top + 0.15)], colour, INK)


def ball(pen: Pen) -> None:
    """A beach ball."""
    pen.ellipse(0.5, 0.63, 0.34, 0.34, CREAM, INK)
    pen.blob([(0.5, 0.3), (0.3, 0.4), (0.28, 0.8), (0.5, 0.96), (0.42, 0.63)], BERRY)
    pen.blob([(0.5, 0.3), (0.62, 0.63), (0.5, 0.96), (0.76, 0.8), (0.78, 0.46)], TEAL)
    pen.ellipse(0.5, 0.32, 0.05, 0.04, GOLD)
    pen.ring(0.5, 0.63, 0.34, INK, 0.03)


def drum(pen: Pen) -> None:
    """A drum with zigzag cords."""
    pen.ellipse(0.5, 0.86, 0.42, 0.12, (74, 84, 150), INK)
    pen.rectangle(0.08, 0.46, 0.92, 0.86, (92, 104, 176))
    zigzag = [(0.09, 0.5), (0.23, 0.88), (0.37, 0.56), (0.5, 0.94), (0.63, 0.56), (0.77, 0.88)]
    pen.line([*zigzag, (0.91, 0.5)], GOLD, 0.04)
    pen.line([(0.08, 0.46), (0.08, 0.86)], INK, 0.022)
    pen.line([(0.92, 0.46), (0.92, 0.86)], INK, 0.022)
    pen.ellipse(0.5, 0.46, 0.42, 0.13, CREAM, INK)


def umbrella(pen: Pen) -> None:
    """An open umbrella on a long stick."""
    pen.line([(0.5, 0.12), (0.5, 0.98)], WOOD_DARK, 0.045)
    canopy(pen)


def canopy(pen: Pen) -> None:
    """The umbrella's upper part, over the top half of the square."""
    top: list[Point] = [
        (0.5 - 0.49 * cos(k * pi / 12), 0.5 - 0.42 * sin(k * pi / 12)) for k in range(13)
    ]
    scallops: list[Point] = [(0.82, 0.43), (0.66, 0.5), (0.5, 0.43), (0.34, 0.5), (0.18, 0.43)]
    pen.polygon([*top, *scallops], TEAL, TEAL_DARK)
    pen.polygon([(0.5, 0.08), (0.66, 0.5), (0.5, 0.43), (0.34, 0.5)], CREAM)
    pen.polygon([*top, *scallops], (0, 0, 0, 0), TEAL_DARK)
    pen.line([(0.5, 0.08), (0.5, 0.03)], TEAL_DARK, 0.04)


def cloud(pen: Pen) -> None:
    """A small cloud with rain."""
    for x, y, radius in ((0.26, 0.52, 0.2), (0.5, 0.38, 0.26), (0.76, 0.5, 0.21)):
        pen.ellipse(x, y, radius, radius, (236, 242, 250), (112, 132, 168))
    pen.rectangle(0.24, 0.42, 0.78, 0.7, (236, 242, 250))
    pen.line([(0.22, 0.71), (0.78, 0.71)], (112, 132, 168), 0.024)
    for x in (0.3, 0.5, 0.7):
        pen.line([(x, 0.78), (x - 0.05, 0.92)], (72, 136, 214), 0.045)


def star(pen: Pen) -> None:
    """A five-pointed star."""
    points: list[Point] = []
    for turn in range(10):
        radius = 0.46 if turn % 2 == 0 else 0.2
        angle = turn * pi / 5 - pi / 2
        points.append((0.5 + radius * cos(angle), 0.52 + radius * sin(angle)))
    pen.polygon(points, GOLD, (184, 128, 36))
    pen.ellipse(0.44, 0.44, 0.06, 0.06, (255, 236, 170))


def rainbow(pen: Pen) -> None:
    """Five bands of a bow."""
    bands: tuple[Colour, ...] = (
        (232, 92, 92),
        (248, 168, 80),
        (252, 220, 110),
        LEAF,
        (88, 140, 214),
    )
    for number, colour in enumerate(bands):
        radius = 0.46 - number * 0.055
        bow = [
            (0.5 - radius * cos(k * pi / 16), 0.72 - radius * sin(k * pi / 16)) for k in range(17)
        ]
        pen.line(bow, colour, 0.068)


def table(pen: Pen) -> None:
    """A wooden table."""
    for x in (0.14, 0.86):
        pen.line([(x, 0.5), (x, 0.96)], WOOD_DARK, 0.09)
    pen.rectangle(0.02, 0.4, 0.98, 0.54, WOOD, WOOD_DARK)
    pen.polygon([(0.24, 0.4), (0.76, 0.4), (0.7, 0.66), (0.5, 0.72), (0.3, 0.66)], CREAM, WOOD_DARK)


COMPANION_FIGURES = {
    "lamp": lamp,
    "mushroom": mushroom,
    "flower": flower,
    "gift": gift,
    "flag": flag,
    "ball": ball,
    "drum": drum,
    "umbrella": umbrella,
    "cloud": cloud,
    "star": star,
    "rainbow": rainbow,
    "table": table,
}

HEIGHTS = {"gift": 0.7, "mushroom": 0.92, "drum": 0.62, "table": 0.6}
"""How high, within its square, the things are that one can stand on."""
