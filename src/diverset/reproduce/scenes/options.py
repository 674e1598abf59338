"""Options of the generated scenes, validated on creation."""

from dataclasses import dataclass

from diverset.errors import OptionError, check_choice
from diverset.reproduce.scenes.vocabulary import BACKGROUNDS, VARIETIES


@dataclass(frozen=True)
class ScenesOptions:
    """What all scenes of a dataset have in common.

    >>> ScenesOptions(situations=9)
    Traceback (most recent call last):
    ...
    diverset.errors.OptionError: situations is 9; choose a whole number from 1 to 6
    """

    situations: int = 4
    """Separate situations per image, 1 to 6. With more, a caption describes less of its image."""
    captions: int = 5
    """Captions per image, spread evenly over its situations: 5 for 4 describe one twice."""
    size: int = 96
    """Side of the square images in pixels."""
    variety: str = "high"
    """How many situations exist: low (438), plain (1,520), medium (3,040) or high (7,984).

    In 500 images with four situations, about 99 %, 75 %, 52 % and 29 % occur in a second image.
    """
    distinct: bool = False
    """No situation occurs in two images of a held-out split: every caption of it has exactly one
    matching image."""
    held_out_size: int | None = None
    """Side of validation and test images, if they are to be larger than `size`."""
    backgrounds: tuple[str, ...] = BACKGROUNDS
    """Names of the backgrounds to draw from."""

    def __post_init__(self) -> None:
        check_whole("situations", self.situations, 1, 6)
        check_whole("captions", self.captions, 1, 24)
        check_whole("size", self.size, 16, 2048)
        if self.held_out_size is not None:
            check_whole("held_out_size", self.held_out_size, 16, 2048)
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
