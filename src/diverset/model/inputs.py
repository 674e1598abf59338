"""From what callers pass to `encode_images` and `encode_texts` to checked, padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from diverset.data.preprocess import Preprocess
from diverset.data.vocabulary import Vocabulary
from diverset.errors import InputError, OptionError, ShapeError, a_few, check_count
from diverset.model.encoder import first_nonfinite
from diverset.types import Padded


def is_image(value: object) -> bool:
    """Whether this is a PIL image or the path of an image, rather than numbers."""
    return isinstance(value, str | PathLike | Image)


def to_batch(preprocess: Preprocess, images: Sequence[Any]) -> Tensor:
    """Paths or PIL images as one batch for a backbone."""
    opened = (
        image.convert("RGB") if isinstance(image, Image) else preprocess.open(image)
        for image in images
    )
    return preprocess.batch([preprocess.pixels(image) for image in opened])


def batches(inputs: Padded | Tensor | Sequence[Any], size: int) -> list[Any]:
    """Parts of at most `size` items; padded ones are cut to their longest sequence."""
    starts = range(0, len(inputs), check_count("batch_size", size))
    if not isinstance(inputs, Padded):
        return [inputs[start : start + size] for start in starts]
    values, mask = inputs.values, inputs.mask
    return [_trimmed(values[start : start + size], mask[start : start + size]) for start in starts]


def _trimmed(values: Tensor, mask: Tensor) -> Padded:
    longest = int(mask.any(dim=0).nonzero()[-1]) + 1
    return Padded(values[:, :longest], mask[:, :longest])


def pad_features(name: str, inputs: Any, lengths: Any) -> Padded:
    """A list of (inputs, width) arrays, or a padded array with lengths, as `Padded`.

    Args:
        name: of the argument, for messages.
        inputs: one array per item, or one padded array for all.
        lengths: number of real inputs of each item in a padded array; None for all.
    """
    if isinstance(inputs, np.ndarray):
        inputs = torch.from_numpy(inputs)
    if isinstance(inputs, Tensor):
        if inputs.ndim != 3 or 0 in inputs.shape:
            raise ShapeError(
                f"{name} has shape {tuple(inputs.shape)}; expected a batch of (inputs, width)"
            )
        if lengths is None:
            lengths = torch.full((len(inputs),), inputs.shape[1])
        padded = Padded.from_lengths(inputs, lengths)
    else:
        padded = Padded.of(_feature_list(name, inputs, lengths))
    if not padded.values.is_floating_point():
        raise InputError(f"{name} holds {padded.values.dtype}; features are floating point")
    _check_finite(name, padded.values.masked_fill(~padded.mask[..., None], 0))
    return padded


def _feature_list(name: str, inputs: Any, lengths: Any) -> list[Tensor]:
    _check_no_lengths(name, lengths)
    try:
        sequences = [torch.as_tensor(sequence) for sequence in inputs]
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} cannot be read as arrays of numbers ({error}); give features or ids"
        ) from error
    for index, sequence in enumerate(sequences):
        if sequence.ndim != 2 or len(sequence) == 0:
            raise ShapeError(
                f"{name}[{index}] has shape {tuple(sequence.shape)}; expected (inputs, width) with "
                "at least one input"
            )
        if sequence.shape[1] != sequences[0].shape[1]:
            raise ShapeError(
                f"{name}[{index}] is {sequence.shape[1]} wide and {name}[0] "
                f"{sequences[0].shape[1]}; all inputs of a batch need the same width"
            )
    return sequences


def _check_no_lengths(name: str, lengths: Any) -> None:
    if lengths is not None:
        raise OptionError(f"lengths go with a padded tensor; {name} is a list")


def _check_finite(name: str, values: Tensor) -> None:
    row = first_nonfinite(values)
    if row is not None:
        raise InputError(f"{name}[{row}] holds NaN or infinity; check how it was extracted")


def as_maps(maps: Any) -> Tensor:
    """Feature maps as one tensor (batch, channels, height, width)."""
    if not isinstance(maps, Tensor | np.ndarray):
        tensors = [torch.as_tensor(item) for item in maps]
        shapes = {tuple(tensor.shape) for tensor in tensors}
        if len(shapes) != 1:
            raise ShapeError(
                f"maps of {len(shapes)} shapes, {a_few(sorted(shapes))}; give maps of one shape"
            )
        maps = torch.stack(tensors)
    batch = torch.as_tensor(maps)
    if batch.ndim != 4 or 0 in batch.shape or not batch.is_floating_point():
        raise ShapeError(
            f"maps are {batch.dtype} {tuple(batch.shape)}; give floating point "
            "(batch, channels, height, width) with at least one map"
        )
    _check_finite("images", batch)
    return batch


def pad_words(texts: Any, lengths: Any, vocabulary: Vocabulary | None) -> Padded:
    """Word ids of strings, or given ids without trailing padding (id 0)."""
    if isinstance(texts, np.ndarray):
        texts = torch.from_numpy(texts)
    if isinstance(texts, Tensor):
        if texts.is_floating_point() or texts.ndim != 2 or 0 in texts.shape:
            raise ShapeError(
                f"texts are {texts.dtype} {tuple(texts.shape)}; give ids (batch, words)"
            )
        if lengths is None:
            positions = torch.arange(1, texts.shape[1] + 1, device=texts.device)
            lengths = ((texts != 0) * positions).amax(dim=1)
        return Padded.from_lengths(texts.long(), lengths)
    _check_no_lengths("texts", lengths)
    if len(texts) and isinstance(texts[0], str):
        if vocabulary is None:
            raise InputError(
                "this model has no vocabulary, so it cannot read strings; give it word ids, or "
                "load it with its vocabulary"
            )
        texts = [vocabulary.encode(text) for text in texts]
    return Padded.of([_word_ids(index, text) for index, text in enumerate(texts)])


def _word_ids(index: int, text: Any) -> Tensor:
    """The ids of one text without trailing padding."""
    try:
        ids = torch.as_tensor(text)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"texts[{index}] is {text!r}; give strings only, or word ids only"
        ) from error
    if ids.ndim != 1 or ids.is_floating_point():
        raise ShapeError(f"texts[{index}] is {ids.dtype} {tuple(ids.shape)}; give ids (words,)")
    words = ids.nonzero()
    if not len(words):
        raise InputError(f"texts[{index}] has no words; leave empty captions out")
    return ids[: int(words[-1]) + 1].long()
