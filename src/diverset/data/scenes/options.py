"""The choices that decide what a set of scenes looks like, checked when they are made.

Knows the ranges and nothing else: neither files nor drawing.
"""

from dataclasses import dataclass

from diverset.data.scenes.vocabulary import BACKGROUNDS, VARIETIES
from diverset.errors import OptionError, check_choice


@dataclass(frozen=True)
class ScenesOptions:
    """What every scene of a dataset has in common.

    >>> ScenesOptions(situations=9)
    Traceback (most recent call last):
    ...
    diverset.errors.OptionError: situations is 9; choose a whole number from 1 to 6
    """

    situations: int = 4
    """Separate situations in a picture, 1 to 6. More of them make a caption vaguer."""
    captions: int = 5
    """Captions of a picture. They go round its situations, so 5 for 4 describe one twice."""
    size: int = 96
    """Side of the square pictures in pixels."""
    variety: str = "high"
    """How many situations exist: low (438), medium (3,040) or high (7,984).

    In 500 pictures of four, about 99 %, 52 % and 29 % of the situations occur in a second picture.
    """
    backgrounds: tuple[str, ...] = BACKGROUNDS
    """The places that pictures are set in."""

    def __post_init__(self) -> None:
        check_whole("situations", self.situations, 1, 6)
        check_whole("captions", self.captions, 1, 24)
        check_whole("size", self.size, 16, 2048)
        check_choice("variety", self.variety, VARIETIES)
        object.__setattr__(self, "backgrounds", tuple(self.backgrounds))
        if not self.backgrounds:
            raise OptionError(f"backgrounds is empty; choose from: {', '.join(BACKGROUNDS)}")
        for background in self.backgrounds:
            check_choice("backgrounds", background, BACKGROUNDS)


def check_whole(name: str, value: object, low: int, high: int) -> None:
    """Raise an `OptionError` unless `value` is a whole number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise OptionError(f"{name} is {value!r}; choose a whole number from {low} to {high}")
