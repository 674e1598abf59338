"""The device that networks run on, by name."""

import torch

from diverset.errors import OptionError


def resolve_device(name: str) -> str:
    """The name of a usable device; "auto" is a GPU if there is one, otherwise the CPU.

    >>> resolve_device("gpu")
    Traceback (most recent call last):
    ...
    diverset.errors.OptionError: device is 'gpu'; give auto, cpu, cuda or cuda:0
    """
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(name).type
    except RuntimeError as error:
        raise OptionError(f"device is {name!r}; give auto, cpu, cuda or cuda:0") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise OptionError(f"device is {name!r}, but torch finds no GPU here; give cpu")
    return name
