"""Loading networks of the transformers library so that nothing is fetched or guessed silently.

By default only local folders and what is already in the hub's cache are used. It does not know
what a network is for: pictures are in `transformers_image`, texts in `transformers_text`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from diverset.errors import CheckpointError, a_few, import_extra

EXTRA = "backbones"
UNUSED = ("pooler",)
"""Parts that only heads need; a checkpoint may lack them."""


def load_network(source: str | Path, allow_download: bool = False) -> Any:
    """A transformers model in float32 and evaluation mode, with every weight from the file.

    Args:
        source: a folder that `save_pretrained` wrote, or a name on the hub.
        allow_download: whether the hub may be asked for what is not on this machine.
    """
    transformers = import_extra("transformers", EXTRA)
    with _quietly(), _explained(source, allow_download):
        network, report = transformers.AutoModel.from_pretrained(
            str(source),
            local_files_only=not allow_download,
            dtype=torch.float32,
            output_loading_info=True,
        )
    missing = sorted(key for key in report["missing_keys"] if not any(u in key for u in UNUSED))
    if missing:
        raise CheckpointError(
            f"{source} lacks {a_few(missing)}, which would be left random; "
            "give a folder with all weights of the model"
        )
    return network.eval()


def load_tokenizer(source: str | Path, allow_download: bool = False) -> Any:
    """The tokenizer that belongs to a text model."""
    transformers = import_extra("transformers", EXTRA)
    with _explained(source, allow_download):
        return transformers.AutoTokenizer.from_pretrained(
            str(source), local_files_only=not allow_download
        )


def load_picture_settings(source: str | Path, allow_download: bool = False) -> dict[str, Any]:
    """The content of preprocessor_config.json, or nothing where there is none."""
    hub = import_extra("transformers.utils", EXTRA)
    with _explained(source, allow_download):
        found = hub.cached_file(
            str(source),
            "preprocessor_config.json",
            local_files_only=not allow_download,
            _raise_exceptions_for_missing_entries=False,
        )
        content = {} if found is None else json.loads(Path(found).read_text(encoding="utf-8"))
    return dict(content)


@contextmanager
def _explained(source: str | Path, allow_download: bool) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        hint = "check the name" if allow_download else "check the path, or pass allow_download=True"
        reason = str(error).strip().split("\n")[0]
        raise CheckpointError(
            f"transformers cannot load {str(source)!r} ({reason}); {hint}"
        ) from error


@contextmanager
def _quietly() -> Iterator[None]:
    """Without transformers' progress bar, which would write into the caller's output."""
    bars = import_extra("transformers.utils.logging", EXTRA)
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()
