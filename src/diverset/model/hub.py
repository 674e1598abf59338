"""Models of the Hugging Face hub: their folder in the hub's cache, downloaded only on request."""

from __future__ import annotations

import re
from pathlib import Path

from diverset.errors import CheckpointError, MissingExtraError, import_extra

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
# Not the weights of other frameworks, and nothing that Python could run.
FILES = ("*.json", "*.safetensors", "pytorch_model*.bin", "*.txt", "*.model")


def is_hub_name(name: str) -> bool:
    """Whether this can be a name on the hub, such as "openai/clip-vit-base-patch32", and is not
    the path of something in an existing folder."""
    return HUB_NAME.fullmatch(name) is not None and not Path(name).parent.exists()


def hub_folder(name: str, allow_download: bool = False) -> Path:
    """The folder of a hub model in the hub's cache; missing files are downloaded if allowed."""
    try:
        hub = import_extra("huggingface_hub", "backbones")
        return Path(
            hub.snapshot_download(
                name, local_files_only=not allow_download, allow_patterns=list(FILES)
            )
        )
    except (OSError, ValueError, MissingExtraError) as error:
        reason = str(error).strip().split("\n")[0]
        if allow_download:
            raise CheckpointError(f"cannot download {name} ({reason}); check the name") from error
        raise CheckpointError(
            f"{name} is neither a folder nor a model in the cache of the Hugging Face hub; check "
            f"the path, or download it with: hf download {name}"
        ) from error
