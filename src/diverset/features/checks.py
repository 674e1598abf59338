"""Checks of what feature extractors read."""

from torch import Tensor

from diverset.errors import ShapeError


def check_inputs(name: str, values: Tensor, axes: str, width: int) -> None:
    """Raise unless `values` are (batch, `axes`, `width`)."""
    if values.ndim != 3 or values.shape[-1] != width:
        raise ShapeError(
            f"{name} have shape {tuple(values.shape)}; this model expects (batch, {axes}, {width})"
        )
