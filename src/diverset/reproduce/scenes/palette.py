"""The colours of all drawings; figures.yaml uses the same names."""

RGB = tuple[int, int, int]

INK: RGB = (52, 52, 74)
CREAM: RGB = (255, 248, 232)
WHITE: RGB = (255, 255, 255)
WOOD: RGB = (150, 104, 72)
WOOD_DARK: RGB = (110, 74, 54)
GOLD: RGB = (252, 202, 84)
SKIN: RGB = (243, 214, 170)
GLASS: RGB = (206, 232, 244)
NOSE: RGB = (236, 128, 140)
BEAK: RGB = (246, 160, 52)
STEEL: RGB = (176, 184, 200)
STEEL_DARK: RGB = (104, 112, 132)
NEON: RGB = (228, 88, 110)
TEAL: RGB = (52, 158, 156)
TEAL_DARK: RGB = (28, 98, 104)
BERRY: RGB = (206, 62, 84)
BERRY_DARK: RGB = (122, 34, 58)
LEAF: RGB = (94, 160, 84)

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


def mix(first: RGB, second: RGB, share: float) -> RGB:
    """`share` of the second colour mixed into the first.

    >>> mix((0, 0, 0), (200, 100, 50), 0.5)
    (100, 50, 25)
    """
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, second, strict=True))
    return red, green, blue


def shades_of(colour: str) -> dict[str, RGB]:
    """The shades of an actor's colour that its figure is drawn with."""
    base = ACTOR_COLOURS[colour]
    shades = {"light": mix(base, WHITE, 0.38), "dark": mix(base, INK, 0.24)}
    return {"base": base, **shades, "edge": mix(base, INK, 0.62)}
