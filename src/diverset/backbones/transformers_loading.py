"""Load networks of the transformers library without silent downloads or random weights.

Only local folders and the hub's cache are used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError

from diverset.errors import CheckpointError, MissingExtraError, a_few, import_extra

EXTRA = "backbones"
UNUSED = ("pooler",)
"""Parts that only heads need; they may be missing."""
TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "vocab.txt", "spiece.model", "tokenizer.model")
"""One of them holds the words of a tokenizer; transformers would continue with an empty one."""


def load_network(source: str | Path) -> Any:
    """A transformers model in float32 and evaluation mode, with every weight from the file."""
    transformers = import_extra("transformers", EXTRA)
    with _without_progress_bar(), _reporting_errors(source):
        network, report = transformers.AutoModel.from_pretrained(
            str(source),
            local_files_only=True,
            dtype=torch.float32,
            output_loading_info=True,
            trust_remote_code=False,
            weights_only=True,
        )
    missing = sorted(key for key in report["missing_keys"] if not any(u in key for u in UNUSED))
    if missing:
        raise CheckpointError(
            f"missing keys {a_few(missing)} in {source}, which would stay random; "
            "give a folder with all weights of the model"
        )
    return network.eval()


def load_tokenizer(source: str | Path) -> Any:
    """The tokenizer of a text model."""
    folder = Path(source)
    if folder.is_dir() and not any((folder / file).exists() for file in TOKENIZER_FILES):
        raise CheckpointError(
            f"{source} has no tokenizer ({' or '.join(TOKENIZER_FILES)}); copy the whole folder "
            "again, or save the model together with its tokenizer"
        )
    transformers = import_extra("transformers", EXTRA)
    with _reporting_errors(source):
        return transformers.AutoTokenizer.from_pretrained(
            str(source), local_files_only=True, trust_remote_code=False
        )


def load_image_processor(folder: Path, name: str) -> Any:
    """The image processor of this class, with the settings of a local folder."""
    transformers = import_extra("transformers", EXTRA)
    if not hasattr(transformers, name):
        raise MissingExtraError(
            f"transformers {transformers.__version__} has no {name}; update it: "
            f"pip install -U 'diverset[{EXTRA}]'"
        )
    with _reporting_errors(folder):
        return getattr(transformers, name).from_pretrained(str(folder), local_files_only=True)


def load_image_settings(source: str | Path) -> dict[str, Any]:
    """How images are prepared: preprocessor_config.json, or its content in processor_config.json;
    empty if there is neither."""
    hub = import_extra("transformers.utils", EXTRA)
    for file in ("preprocessor_config.json", "processor_config.json"):
        with _reporting_errors(source):
            options = {"_raise_exceptions_for_missing_entries": False}
            path = hub.cached_file(str(source), file, local_files_only=True, **options)
            content = {} if path is None else json.loads(Path(path).read_text(encoding="utf-8"))
        if content:
            return dict(content.get("image_processor", content))
    return {}


@contextmanager
def _reporting_errors(source: str | Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, UnpicklingError, SafetensorError) as error:
        hint = f"check the path, or run `hf download {source}`"
        if Path(source).is_dir():
            hint = "the folder is incomplete or damaged, copy it again"
        reason = str(error).strip().split("\n")[0]
        message = f"transformers cannot load {str(source)!r} ({reason}); {hint}"
        raise CheckpointError(message) from error


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    """Disable the progress bar of transformers, which would write to the terminal."""
    bars = import_extra("transformers.utils.logging", EXTRA)
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()
