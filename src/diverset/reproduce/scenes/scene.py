"""The content of an image: situations and their boxes, sampled from a seed.

`drawing` turns a scene into pixels, `sentences` into captions.
"""

from dataclasses import dataclass
from functools import cache
from random import Random

from diverset.reproduce.scenes.options import ScenesOptions
from diverset.reproduce.scenes.vocabulary import (
    COLOURS,
    KINDS,
    PLACED,
    SINGLE_ONLY,
    VARIETIES,
    companions_of,
)

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, as fractions of the image side."""


@dataclass(frozen=True, order=True)
class Situation:
    """One event in an image, which a caption can describe."""

    kind: str
    colour: str
    action: str
    companion: str = ""
    """The second object; empty if the actor is alone."""
    size: str = "large"
    count: int = 1


@dataclass(frozen=True)
class Scene:
    """The content of an image."""

    seed: int
    background: str
    situations: tuple[Situation, ...]
    boxes: tuple[Box, ...]
    """The box of each situation; boxes do not overlap."""


@cache
def possible_situations(variety: str) -> tuple[Situation, ...]:
    """All the situations of a variety.

    >>> [len(possible_situations(name)) for name in ("low", "plain", "medium", "high")]
    [438, 1520, 3040, 7984]
    """
    limits = VARIETIES[variety]
    return tuple(
        Situation(kind.name, colour, action, companion, size, count)
        for kind in KINDS[: limits.kinds]
        for colour in list(COLOURS)[: limits.colours]
        for action in kind.actions
        for companion in companions_of(action, limits) or ("",)
        for size in limits.sizes
        for count in limits.counts
        if count == 1 or (size == "large" and action not in SINGLE_ONLY)
    )


def sample_situation(rng: Random, variety: str) -> Situation:
    """Sample one situation part by part, so that every kind and colour is equally common.

    A relation is twice as likely as an action alone, since its companion is more distinctive.
    """
    limits = VARIETIES[variety]
    kind = KINDS[rng.randrange(limits.kinds)]
    colour = rng.choice(list(COLOURS)[: limits.colours])
    weights = [2 if action in PLACED else 1 for action in kind.actions]
    action = rng.choices(kind.actions, weights)[0]
    companion = rng.choice(companions_of(action, limits) or ("",))
    looks = [(size, 1) for size in limits.sizes]
    if action not in SINGLE_ONLY:
        looks += [("large", count) for count in limits.counts if count > 1]
    size, count = rng.choice(looks)
    return Situation(kind.name, colour, action, companion, size, count)


def sample_scene(seed: int, options: ScenesOptions | None = None) -> Scene:
    """Sample the scene of a seed.

    No two situations of a scene have actors of one kind *and* one colour, so every caption
    names exactly one of them.

    >>> sample_scene(7) == sample_scene(7)
    True
    >>> len(sample_scene(7, ScenesOptions(situations=2)).situations)
    2
    """
    options = options or ScenesOptions()
    rng = Random(seed)
    background = rng.choice(options.backgrounds)
    situations: dict[tuple[str, str], Situation] = {}
    while len(situations) < options.situations:
        situation = sample_situation(rng, options.variety)
        situations.setdefault((situation.kind, situation.colour), situation)
    boxes = place_boxes(options.situations, rng)
    return Scene(seed, background, tuple(situations.values()), boxes)


def place_boxes(number: int, rng: Random) -> tuple[Box, ...]:
    """Spread square boxes over the image in loose rows, without overlap.

    >>> len(place_boxes(5, Random(0)))
    5
    """
    rows, side = rng.choice(_ROWS[number])
    boxes: list[Box] = []
    band = 1.0 / len(rows)
    for row, columns in enumerate(rows):
        size = min(side, band - 0.01, 1.0 / columns - 0.01)
        free = 1.0 - columns * size
        gaps = sorted(rng.uniform(0.0, free) for _ in range(columns))  # left of a box
        for column, gap in enumerate(gaps):
            left, top = gap + column * size, row * band + rng.uniform(0.0, band - size)
            right, bottom = round(left + size, 4), round(top + size, 4)
            boxes.append((round(left, 4), round(top, 4), right, bottom))
    rng.shuffle(boxes)
    return tuple(boxes)


_ROWS: dict[int, tuple[tuple[tuple[int, ...], float], ...]] = {
    1: (((1,), 0.66),),
    2: (((2,), 0.48), ((1, 1), 0.48)),
    3: (((2, 1), 0.46), ((1, 2), 0.46)),
    4: (((2, 2), 0.44),),
    5: (((2, 1, 2), 0.33), ((3, 2), 0.33), ((2, 3), 0.33)),
    6: (((3, 3), 0.325), ((2, 2, 2), 0.325)),
}
"""For a number of situations: rows with their number of boxes, and the side of a box."""
