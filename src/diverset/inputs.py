"""From what callers have at hand to padded batches, checked.

Lists of arrays, numpy arrays and padded tensors become `Padded`; shapes that cannot be meant and
numbers that are not finite are refused with the place they stand at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from os import PathLike
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor, nn
from torch.nn import functional as F

from diverset.data.images import open_picture
from diverset.data.preprocess import Preprocess
from diverset.errors import InputError, OptionError, ShapeError, a_few
from diverset.types import Padded


def is_picture(value: object) -> bool:
    """Whether this is an opened picture or the path of one, rather than numbers."""
    return isinstance(value, str | PathLike | Image)


def opened(picture: Any) -> Image:
    """A picture as upright RGB, opened where a path was given."""
    if not isinstance(picture, Image):
        return open_picture(picture)
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def stacked(preprocess: Preprocess, pictures: Sequence[Any]) -> Tensor:
    """Pictures as one batch for a network."""
    return preprocess.batch([preprocess.pixels(opened(one)) for one in pictures])


def ahead(
    prepare: Callable[[Sequence[Any]], Any], items: Sequence[Any], size: int
) -> Iterator[Any]:
    """Prepared batches of items; a thread prepares the next one while the last is in use."""
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    if len(parts) < 2:
        yield from map(prepare, parts)
        return
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(prepare, parts[0])
        for part in parts[1:]:
            found, waiting = waiting.result(), pool.submit(prepare, part)
            yield found
        yield waiting.result()


def batches(inputs: Padded | Tensor, size: int) -> list[Any]:
    starts = range(0, len(inputs), size)
    if isinstance(inputs, Tensor):
        return [inputs[start : start + size] for start in starts]
    values, mask = inputs.values, inputs.mask
    return [_trimmed(values[start : start + size], mask[start : start + size]) for start in starts]


def _trimmed(values: Tensor, mask: Tensor) -> Padded:
    longest = int(mask.any(dim=0).nonzero()[-1]) + 1
    return Padded(values[:, :longest], mask[:, :longest])


def as_padded(name: str, inputs: Any, lengths: Any, dims: int) -> Padded:
    if isinstance(inputs, np.ndarray):
        inputs = torch.from_numpy(inputs)
    if not isinstance(inputs, Tensor):
        if lengths is not None:
            raise OptionError(f"lengths go with a padded tensor; {name} is a list")
        try:
            sequences = [torch.as_tensor(one) for one in inputs]
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{name} cannot be read as arrays of numbers ({error})") from error
        for place, one in enumerate(sequences):
            if one.ndim != dims or len(one) == 0:
                raise ShapeError(
                    f"{name}[{place}] has shape {tuple(one.shape)}; expected "
                    f"{'(inputs, width)' if dims == 2 else '(words,)'} with at least one input"
                )
            if dims == 2 and one.shape[1] != sequences[0].shape[1]:
                raise ShapeError(
                    f"{name}[{place}] is {one.shape[1]} wide and {name}[0] {sequences[0].shape[1]};"
                    " all inputs of a batch come from one extractor"
                )
        padded = Padded.of(sequences)
    else:
        if inputs.ndim != dims + 1 or 0 in inputs.shape:
            raise ShapeError(
                f"{name} has shape {tuple(inputs.shape)}; expected a batch of "
                f"{'(inputs, width)' if dims == 2 else '(words,)'}"
            )
        if lengths is None:
            lengths = torch.full((len(inputs),), inputs.shape[1])
        padded = Padded.from_lengths(inputs, lengths)
    if dims == 2:
        if not padded.values.is_floating_point():
            raise InputError(f"{name} holds {padded.values.dtype}; features are floating point")
        check_finite(name, padded.values.masked_fill(~padded.mask[..., None], 0))
    return padded


def check_finite(name: str, values: Tensor) -> None:
    if not values.isfinite().all():
        place = int((~values.isfinite()).flatten(1).any(dim=1).nonzero()[0])
        raise InputError(f"{name}[{place}] holds NaN or infinity; look at how it was extracted")


def as_maps(maps: Any) -> Tensor:
    """Feature maps as one tensor (batch, channels, height, width)."""
    if not isinstance(maps, Tensor | np.ndarray):
        some = [torch.as_tensor(one) for one in maps]
        shapes = {tuple(one.shape) for one in some}
        if len(shapes) != 1:
            raise ShapeError(f"maps of {len(shapes)} shapes, {a_few(sorted(shapes))}; give one")
        maps = torch.stack(some)
    found = torch.as_tensor(maps)
    if found.ndim != 4 or 0 in found.shape or not found.is_floating_point():
        raise ShapeError(
            f"maps are {found.dtype} {tuple(found.shape)}; give floating point "
            "(batch, channels, height, width) with at least one map"
        )
    check_finite("images", found)
    return found


def word_ids(texts: Any, lengths: Any) -> tuple[Any, Any]:
    """Word ids without the padding (id 0) at their ends, and the lengths that follow."""
    if isinstance(texts, np.ndarray):
        texts = torch.from_numpy(texts)
    if isinstance(texts, Tensor):
        if texts.is_floating_point() or texts.ndim != 2:
            raise ShapeError(
                f"texts are {texts.dtype} {tuple(texts.shape)}; give ids (batch, words)"
            )
        texts = texts.long()
        places = torch.arange(1, texts.shape[1] + 1, device=texts.device)
        return texts, ((texts != 0) * places).amax(dim=1) if lengths is None else lengths
    found = []
    for place, one in enumerate(texts):
        try:
            ids = torch.as_tensor(one)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"texts[{place}] is {one!r}; give strings only, or word ids only"
            ) from error
        if ids.ndim != 1 or ids.is_floating_point():
            raise ShapeError(f"texts[{place}] is {ids.dtype} {tuple(ids.shape)}; give ids (words,)")
        real = ids.nonzero()
        if not len(real):
            raise InputError(f"texts[{place}] has no words; leave empty captions out")
        found.append(ids[: int(real[-1]) + 1].long())
    return found, lengths


def as_precise(inputs: Padded | Tensor, dtype: torch.dtype) -> Padded | Tensor:
    """Floating-point inputs in the precision of the model; ids stay as they are."""
    if isinstance(inputs, Tensor):
        return inputs.to(dtype)
    values = inputs.values
    return Padded(values.to(dtype), inputs.mask) if values.is_floating_point() else inputs


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; afterwards every part is in the mode it was in."""
    before = {part: part.training for part in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for part, training in before.items():
            part.training = training


def join_sets(batches: list[Tensor]) -> Tensor:
    """Sets of several batches as one tensor; local sets differ in size and get zero rows."""
    largest = max(one.shape[1] for one in batches)
    return torch.cat([F.pad(one, (0, 0, 0, largest - one.shape[1])) for one in batches])
