"""A short name of a module's very weights; files made with them carry it."""

import hashlib

import torch
from torch import nn


def fingerprint(module: nn.Module, about: str) -> str:
    """Sixteen hexadecimal digits of the weights and of what else decides the output, as text."""
    digest = hashlib.sha256(about.encode())
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()[:16]
