"""The colours of everything, chosen to go together.

Knows colours as numbers; which shape wears which is decided where it is drawn.
"""

from dataclasses import dataclass

RGB = tuple[int, int, int]

INK: RGB = (52, 52, 74)
CREAM: RGB = (255, 248, 232)
WHITE: RGB = (255, 255, 255)
WOOD: RGB = (150, 104, 72)
WOOD_DARK: RGB = (110, 74, 54)
GOLD: RGB = (252, 202, 84)
SKIN: RGB = (243, 214, 170)
GLASS: RGB = (206, 232, 244)

ACTOR_COLOURS: dict[str, RGB] = {
    "red": (222, 62, 62),
    "blue": (58, 116, 208),
    "yellow": (250, 208, 58),
    "green": (62, 160, 88),
    "purple": (132, 80, 178),
    "white": (250, 249, 246),
    "orange": (244, 136, 42),
    "pink": (246, 140, 182),
}


@dataclass(frozen=True)
class Paint:
    """The shades of one colour that a figure is drawn with."""

    base: RGB
    light: RGB
    dark: RGB
    edge: RGB


def mix(first: RGB, second: RGB, share: float) -> RGB:
    """`share` of the second colour mixed into the first.

    >>> mix((0, 0, 0), (200, 100, 50), 0.5)
    (100, 50, 25)
    """
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue


def paint(colour: str) -> Paint:
    """The shades of an actor's colour."""
    base = ACTOR_COLOURS[colour]
    return Paint(
        base=base,
        light=mix(base, WHITE, 0.38),
        dark=mix(base, INK, 0.24),
        edge=mix(base, INK, 0.62),
    )
