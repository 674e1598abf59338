"""The frozen backbones of a model: loaded when first used, checked against the saved ones."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import torch

from diverset.backbones import Backbone
from diverset.config import ImageConfig, ModelConfig, TextConfig
from diverset.errors import CheckpointError
from diverset.model.build import frozen_backbone

# Threads that share a model load a backbone once. Not an attribute: locks cannot be copied.
_LOADING = threading.Lock()


class FrozenBackbones:
    """Whole backbones, or their blocks before the trainable ones; not weights of the model.

    Args:
        config: of the model.
        parts: those that are loaded already, by "image" and "text".

    Attributes:
        expected: fingerprints that were saved with the model, by "image" and "text".
    """

    def __init__(self, config: ModelConfig, parts: Mapping[str, Backbone | None]) -> None:
        self._configs: dict[str, ImageConfig | TextConfig]
        self._configs = {"image": config.image, "text": config.text}
        self._sides = [
            side
            for side, options in self._configs.items()
            if options.backbone and options.is_cached
        ]
        self._parts = dict(parts)
        self._ready: dict[str, tuple[Backbone, str]] = {}
        self.expected: dict[str, str] = {}

    def get(self, side: str, device: torch.device) -> Backbone:
        """The frozen backbone of "image" or "text", in its fastest form."""
        backbone = self._load(side)[0]
        return backbone if backbone.device == device else backbone.to(device)

    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each frozen backbone."""
        return {side: self.expected.get(side) or self._load(side)[1] for side in self._sides}

    def expect(self, fingerprints: dict[str, str], source: str) -> None:
        """Require the backbones that a saved model was trained with."""
        missing = [side for side in self._sides if side not in fingerprints]
        if missing:
            raise CheckpointError(
                f"{source} does not name the frozen backbones it was trained with "
                f"({', '.join(missing)}); save the model again"
            )
        self.expected = dict(fingerprints)

    def _load(self, side: str) -> tuple[Backbone, str]:
        with _LOADING:
            if side not in self._ready:
                backbone = self._parts.pop(side, None) or frozen_backbone(self._configs[side])
                ready = backbone.for_inference()
                fingerprint = ready.fingerprint()
                expected = self.expected.get(side, fingerprint)
                if fingerprint != expected:
                    raise CheckpointError(
                        f"this model was trained with the {side} backbone {expected}, the "
                        f"installed one is {fingerprint}; install the package version it was "
                        "trained with"
                    )
                self._ready[side] = ready, fingerprint
            return self._ready[side]
