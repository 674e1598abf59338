"""What can happen in a scene: kinds of actors, colours, actions and companions.

This module holds facts only. It knows which action suits which actor and which noun names it,
but neither how anything is drawn (`figures`, `companions`) nor how a sentence is built
(`sentences`). How much of the vocabulary a dataset uses is its *variety*.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of actor."""

    name: str
    """The noun that names it in the dataset's records."""
    nouns: tuple[tuple[str, str], ...]
    """Singular and plural of every noun a caption may use for it."""
    habitat: str
    """What it moves in: ground, air, water, wheels or still. Decides verbs and layout."""
    actions: tuple[str, ...]
    """What it can do; the names are those of `ALONE` and `PLACED`."""


@dataclass(frozen=True)
class Variety:
    """How much of the vocabulary takes part; less of it makes pictures harder to tell apart."""

    kinds: int
    colours: int
    companions: int
    """At most so many companions an action."""
    sizes: tuple[str, ...]
    counts: tuple[int, ...]


ALONE = ("sleep", "sing", "jump", "race", "shine")
"""Actions without a second object."""

PLACED = {
    "beside": ("lamp", "mushroom", "flower", "gift", "flag", "ball", "drum", "umbrella"),
    "under": ("umbrella", "cloud", "star", "rainbow"),
    "on": ("gift", "mushroom", "drum", "table"),
    "over": ("mushroom", "gift", "lamp", "flower", "drum", "flag", "ball", "umbrella"),
    "carry": ("flower", "gift", "lamp", "star", "ball", "flag", "drum", "mushroom"),
}
"""Relations, with the companions that each of them can have."""

SINGLE_ONLY = frozenset({"carry", "on"})
"""Relations that only one actor at a time takes part in: two would not fit."""

_ANIMAL = ("sleep", "sing", "jump", "race", "beside", "under", "on", "carry")
_VEHICLE = ("race", "shine", "beside", "under", "on", "carry")

KINDS = (
    Kind("cat", (("cat", "cats"), ("kitten", "kittens")), "ground", _ANIMAL),
    Kind(
        "fish",
        (("fish", "fish"),),
        "water",
        ("sleep", "sing", "race", "beside", "under", "carry"),
    ),
    Kind("car", (("car", "cars"), ("automobile", "automobiles")), "wheels", _VEHICLE),
    Kind("bird", (("bird", "birds"),), "air", ("sing", "race", "over", "under", "carry")),
    Kind(
        "house",
        (("house", "houses"), ("cottage", "cottages")),
        "still",
        ("shine", "beside", "under", "on"),
    ),
    Kind(
        "balloon",
        (("balloon", "balloons"), ("hot-air balloon", "hot-air balloons")),
        "air",
        ("shine", "over", "under", "carry"),
    ),
    Kind("snail", (("snail", "snails"),), "ground", _ANIMAL),
    Kind(
        "boat",
        (("boat", "boats"), ("sailing boat", "sailing boats")),
        "water",
        ("race", "shine", "beside", "under", "carry"),
    ),
    Kind("dog", (("dog", "dogs"), ("puppy", "puppies")), "ground", _ANIMAL),
    Kind("tree", (("tree", "trees"),), "still", ("shine", "beside", "under")),
    Kind(
        "rocket",
        (("rocket", "rockets"), ("spaceship", "spaceships")),
        "air",
        ("race", "shine", "over", "under", "carry"),
    ),
    Kind("rabbit", (("rabbit", "rabbits"), ("bunny", "bunnies")), "ground", _ANIMAL),
    Kind("bicycle", (("bicycle", "bicycles"), ("bike", "bikes")), "wheels", _VEHICLE),
    Kind(
        "butterfly",
        (("butterfly", "butterflies"),),
        "air",
        ("race", "shine", "over", "under", "carry"),
    ),
    Kind("elephant", (("elephant", "elephants"),), "ground", _ANIMAL),
    Kind("robot", (("robot", "robots"),), "ground", _ANIMAL),
)
"""Every kind of actor; a variety takes the first so many."""

KIND = {kind.name: kind for kind in KINDS}

COLOURS = {
    "red": ("red", "crimson"),
    "blue": ("blue", "azure"),
    "yellow": ("yellow", "golden"),
    "green": ("green",),
    "purple": ("purple", "violet"),
    "white": ("white",),
    "orange": ("orange",),
    "pink": ("pink", "rosy"),
}
"""Colours of actors, each with the adjectives that name it; a variety takes the first so many."""

COMPANIONS = {
    "lamp": ("lamp", "lantern"),
    "mushroom": ("mushroom", "toadstool"),
    "flower": ("flower",),
    "gift": ("gift", "present"),
    "flag": ("flag",),
    "ball": ("ball",),
    "drum": ("drum",),
    "umbrella": ("umbrella", "parasol"),
    "cloud": ("cloud",),
    "star": ("star",),
    "rainbow": ("rainbow",),
    "table": ("table",),
}
"""Second objects, each with its nouns."""

VARIETIES = {
    "low": Variety(kinds=8, colours=6, companions=2, sizes=("large",), counts=(1,)),
    "medium": Variety(kinds=12, colours=8, companions=4, sizes=("large", "small"), counts=(1,)),
    "high": Variety(kinds=16, colours=8, companions=8, sizes=("large", "small"), counts=(1, 2)),
}
"""The named varieties of `ScenesOptions`."""

BACKGROUNDS = ("meadow", "beach", "snow", "night", "city", "autumn", "desert")
"""Places. No caption mentions them."""


def companions_of(action: str, variety: Variety) -> tuple[str, ...]:
    """The second objects an action can have; none for an action done alone.

    >>> companions_of("under", VARIETIES["low"])
    ('umbrella', 'cloud')
    >>> companions_of("sleep", VARIETIES["low"])
    ()
    """
    return PLACED.get(action, ())[: variety.companions]
