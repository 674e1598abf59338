"""Weights of a module: their hash, and loading them strictly."""

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from diverset.errors import CheckpointError, a_few


def weight_hash(
    tensors: Mapping[str, Tensor], settings: str, dtype: torch.dtype | None = None
) -> str:
    """Sixteen hexadecimal digits of the weights and of the settings that decide the output.

    With a `dtype`, floating-point weights are converted one at a time before they are hashed.
    """
    digest = hashlib.sha256(settings.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        if dtype is not None and tensor.is_floating_point():
            tensor = tensor.to(dtype)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def load_strictly(
    module: nn.Module, tensors: dict[str, Tensor], source: str, assign: bool = False
) -> None:
    """Copy weights into a module, or let it use these very ones with `assign`; every name and
    every shape must agree."""
    check_weights(module.state_dict(), tensors, source)
    module.load_state_dict(tensors, assign=assign)


def check_weights(
    expected: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    source: str,
    wants: str = "the model has",
) -> None:
    """Raise unless the tensors have exactly the expected names and shapes."""
    missing = sorted(expected.keys() - tensors.keys())
    unexpected = sorted(tensors.keys() - expected.keys())
    if missing or unexpected:
        raise CheckpointError(
            f"{source} belongs to another model: missing keys {a_few(missing) or 'none'}; "
            f"unexpected keys {a_few(unexpected) or 'none'}; check the architecture it was "
            "trained with"
        )
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape:
            raise CheckpointError(
                f"{name} in {source} has shape {tuple(tensor.shape)}, {wants} "
                f"{tuple(expected[name].shape)}; check the architecture it was trained with"
            )
