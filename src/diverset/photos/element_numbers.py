"""Elements of a set count from 0 in Python and from 1 where people read or write them."""

from __future__ import annotations

from diverset.errors import OptionError


def element_number(index: int) -> int:
    """The number that people see."""
    return index + 1


def element_index(number: int) -> int:
    """The index of an element, from the number that a person gave.

    >>> element_index(2)
    1
    """
    return number - 1


def check_element(index: int, size: int) -> None:
    """Raise unless a set of this size has the element."""
    if not 0 <= index < size:
        raise OptionError(
            f"there is no element {element_number(index)}; images have elements 1 to {size}"
        )
