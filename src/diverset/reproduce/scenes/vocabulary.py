"""What can happen in a scene: kinds of actors, colours, actions and companions.

A dataset uses a part of this vocabulary, its *variety*.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of actor."""

    name: str
    """The noun that names it in the dataset's records."""
    nouns: tuple[str, ...]
    """The nouns a caption may use for it."""
    habitat: str
    """What it moves in: ground, air, water, wheels or still. Decides verbs and layout."""
    actions: tuple[str, ...]
    """What it can do: alone, or with a companion if the action is in `PLACED`."""


@dataclass(frozen=True)
class Variety:
    """How much of the vocabulary is used; with less, images are harder to tell apart."""

    kinds: int
    colours: int
    companions: int
    """Maximum number of companions per action."""
    sizes: tuple[str, ...]
    counts: tuple[int, ...]


PLACED = {
    "beside": ("lamp", "mushroom", "flower", "gift", "flag", "ball", "drum", "umbrella"),
    "under": ("umbrella", "cloud", "star", "rainbow"),
    "on": ("gift", "mushroom", "drum", "table"),
    "over": ("mushroom", "gift", "lamp", "flower", "drum", "flag", "ball", "umbrella"),
    "carry": ("flower", "gift", "lamp", "star", "ball", "flag", "drum", "mushroom"),
}
"""Relations, with the companions that each of them can have."""

SINGLE_ONLY = frozenset({"carry", "on"})
"""Relations with a single actor: two would not fit."""

_ANIMAL = ("sleep", "sing", "jump", "race", "beside", "under", "on", "carry")
_VEHICLE = ("race", "shine", "beside", "under", "on", "carry")
_FLYER = ("race", "shine", "over", "under", "carry")

KINDS = (
    Kind("cat", ("cat", "kitten"), "ground", _ANIMAL),
    Kind("fish", ("fish",), "water", ("sleep", "sing", "race", "beside", "under", "carry")),
    Kind("car", ("car", "automobile"), "wheels", _VEHICLE),
    Kind("bird", ("bird",), "air", ("sing", "race", "over", "under", "carry")),
    Kind("house", ("house", "cottage"), "still", ("shine", "beside", "under", "on")),
    Kind("balloon", ("balloon", "hot-air balloon"), "air", ("shine", "over", "under", "carry")),
    Kind("snail", ("snail",), "ground", _ANIMAL),
    Kind("boat", ("boat", "sailing boat"), "water", ("race", "shine", "beside", "under", "carry")),
    Kind("dog", ("dog", "puppy"), "ground", _ANIMAL),
    Kind("tree", ("tree",), "still", ("shine", "beside", "under")),
    Kind("rocket", ("rocket", "spaceship"), "air", _FLYER),
    Kind("rabbit", ("rabbit", "bunny"), "ground", _ANIMAL),
    Kind("bicycle", ("bicycle", "bike"), "wheels", _VEHICLE),
    Kind("butterfly", ("butterfly",), "air", _FLYER),
    Kind("elephant", ("elephant",), "ground", _ANIMAL),
    Kind("robot", ("robot",), "ground", _ANIMAL),
)
"""Every kind of actor; a variety uses the first ones."""

KIND = {kind.name: kind for kind in KINDS}


def _synonyms(text: str) -> dict[str, tuple[str, ...]]:
    """Words by the first of their synonyms, which stands for them in the dataset's records."""
    groups = [tuple(group.split("/")) for group in text.split()]
    return {group[0]: group for group in groups}


COLOURS = _synonyms(
    "red/crimson blue/azure yellow/golden green purple/violet white orange pink/rosy"
)
"""Colours of actors, each with its adjectives; a variety uses the first ones."""

COMPANIONS = _synonyms(
    "lamp/lantern mushroom/toadstool flower gift/present flag ball drum umbrella/parasol "
    "cloud star rainbow table"
)
"""Second objects, each with its nouns."""

VARIETIES = {
    "low": Variety(kinds=8, colours=6, companions=2, sizes=("large",), counts=(1,)),
    "plain": Variety(kinds=12, colours=8, companions=4, sizes=("large",), counts=(1,)),
    "medium": Variety(kinds=12, colours=8, companions=4, sizes=("large", "small"), counts=(1,)),
    "high": Variety(kinds=16, colours=8, companions=8, sizes=("large", "small"), counts=(1, 2)),
}
"""The named varieties of `ScenesOptions`."""

BACKGROUNDS = ("meadow", "beach", "snow", "night", "city", "autumn", "desert")
"""Backgrounds. No caption mentions them."""


def companions_of(action: str, variety: Variety) -> tuple[str, ...]:
    """The second objects an action can have; none for an action done alone.

    >>> companions_of("under", VARIETIES["low"])
    ('umbrella', 'cloud')
    >>> companions_of("sleep", VARIETIES["low"])
    ()
    """
    return PLACED.get(action, ())[: variety.companions]
