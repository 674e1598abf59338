"""What a picture shows, before anything is drawn: situations and the spots they take.

Knows chance and geometry. A scene follows from its seed and options alone; pixels are the
business of `picture`, words that of `sentences`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from random import Random

from diverset.data.scenes.options import ScenesOptions
from diverset.data.scenes.vocabulary import (
    COLOURS,
    KINDS,
    PLACED,
    SINGLE_ONLY,
    VARIETIES,
    companions_of,
)

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, as fractions of the picture's side."""


@dataclass(frozen=True, order=True)
class Situation:
    """One thing that happens in a picture, and that a caption can describe."""

    kind: str
    colour: str
    action: str
    companion: str = ""
    """The second object, or nothing when the actor is alone."""
    size: str = "large"
    count: int = 1


@dataclass(frozen=True)
class Scene:
    """A picture's content."""

    seed: int
    background: str
    situations: tuple[Situation, ...]
    boxes: tuple[Box, ...]
    """Where each situation is; no two of them overlap."""


@cache
def possible_situations(variety: str) -> tuple[Situation, ...]:
    """All the situations of a variety.

    >>> [len(possible_situations(name)) for name in ("low", "medium", "high")]
    [438, 3040, 7984]
    """
    chosen = VARIETIES[variety]
    return tuple(
        Situation(kind.name, colour, action, companion, size, count)
        for kind in KINDS[: chosen.kinds]
        for colour in list(COLOURS)[: chosen.colours]
        for action in kind.actions
        for companion in companions_of(action, chosen) or ("",)
        for size in chosen.sizes
        for count in chosen.counts
        if count == 1 or (size == "large" and action not in SINGLE_ONLY)
    )


def sample_situation(rng: Random, variety: str) -> Situation:
    """Draw one situation part by part, so that every kind and colour is equally common.

    A relation is twice as likely as an action done alone, since its companion tells more apart.
    """
    chosen = VARIETIES[variety]
    kind = KINDS[rng.randrange(chosen.kinds)]
    colour = rng.choice(list(COLOURS)[: chosen.colours])
    weights = [2 if action in PLACED else 1 for action in kind.actions]
    action = rng.choices(kind.actions, weights)[0]
    companion = rng.choice(companions_of(action, chosen) or ("",))
    looks = [(size, 1) for size in chosen.sizes]
    if action not in SINGLE_ONLY:
        looks += [("large", count) for count in chosen.counts if count > 1]
    size, count = rng.choice(looks)
    return Situation(kind.name, colour, action, companion, size, count)


def sample_scene(seed: int, options: ScenesOptions | None = None) -> Scene:
    """Make up the scene of a seed.

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
    found: dict[tuple[str, str], Situation] = {}
    while len(found) < options.situations:
        situation = sample_situation(rng, options.variety)
        found.setdefault((situation.kind, situation.colour), situation)
    boxes = place_boxes(options.situations, rng)
    return Scene(seed, background, tuple(found.values()), boxes)


def place_boxes(number: int, rng: Random) -> tuple[Box, ...]:
    """Spread square boxes over the picture in loose rows, without overlap.

    >>> len(place_boxes(5, Random(0)))
    5
    """
    rows, side = rng.choice(_ROWS[number])
    boxes: list[Box] = []
    band = 1.0 / len(rows)
    for row, columns in enumerate(rows):
        side_here = min(side, band - 0.01, 1.0 / columns - 0.01)
        for left in _spread(columns, side_here, rng):
            top = row * band + rng.uniform(0.0, band - side_here)
            boxes.append(_rounded(left, top, side_here))
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


def _spread(columns: int, side: float, rng: Random) -> Iterator[float]:
    """Left edges of the boxes of one row, the free width cut at random."""
    free = 1.0 - columns * side
    cuts = sorted(rng.uniform(0.0, free) for _ in range(columns))
    for column, cut in enumerate(cuts):
        yield cut + column * side


def _rounded(left: float, top: float, side: float) -> Box:
    return (round(left, 4), round(top, 4), round(left + side, 4), round(top + side, 4))
