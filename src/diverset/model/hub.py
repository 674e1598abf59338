"""Models of the Hugging Face hub: found in the hub's cache, downloaded and uploaded on request.

Without `allow_download`, nothing here uses the network.
"""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path

from diverset.errors import CheckpointError, MissingExtraError, OptionError, import_extra

HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
# Not the weights of other frameworks, and nothing that Python could run.
FILES = ("*.json", "*.safetensors", "pytorch_model*.bin", "*.txt", "*.model")


def is_hub_name(name: str) -> bool:
    """Whether this can be a name on the hub, such as "openai/clip-vit-base-patch32", and is not
    the path of something in an existing folder."""
    return HUB_NAME.fullmatch(name) is not None and not Path(name).parent.exists()


def hub_folder(name: str, allow_download: bool = False, revision: str | None = None) -> Path:
    """The folder of a hub model in the hub's cache; missing files are downloaded if allowed.

    Args:
        name: "owner/name".
        allow_download: whether the network may be used.
        revision: a branch, tag or commit; the main branch by default.
    """
    try:
        hub = import_extra("huggingface_hub", "hub")
        options = {"revision": revision, "local_files_only": not allow_download}
        return Path(hub.snapshot_download(name, allow_patterns=list(FILES), **options))
    except (OSError, ValueError, MissingExtraError) as error:
        reason = str(error).strip().split("\n")[0]
        if allow_download:
            raise CheckpointError(f"cannot download {name} ({reason}); check the name") from error
        raise CheckpointError(
            f"{name} is neither a folder nor a model in the cache of the Hugging Face hub; check "
            f"the path, or download it with: hf download {name}"
        ) from error


def local_folder(
    name: str | PathLike[str], allow_download: bool = False, revision: str | None = None
) -> Path:
    """A folder itself, or that of a hub model."""
    if is_hub_name(str(name)):
        return hub_folder(str(name), allow_download, revision)
    if revision is not None:
        raise OptionError(f"revision is {revision!r}, but {name} is a folder; omit the revision")
    return Path(name)


def push_folder(
    folder: Path, name: str, private: bool | None, revision: str | None, message: str
) -> str:
    """Upload the files of a model to the hub, in one commit; returns the address of the commit.

    The repository is created if it does not exist. Access is that of `hf auth login`.
    """
    if HUB_NAME.fullmatch(name) is None:
        raise OptionError(f"{name!r} is not a name on the hub; give OWNER/NAME")
    hub = import_extra("huggingface_hub", "hub")
    api = hub.HfApi()
    try:
        api.create_repo(name, private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=name, folder_path=folder, revision=revision, commit_message=message
        )
    except Exception as error:  # also errors of its HTTP client, which differs by version
        reason = str(error).strip().split("\n")[0]
        raise CheckpointError(
            f"cannot upload {name} ({reason}); check the name, the network and `hf auth whoami`"
        ) from error
    return str(commit.commit_url)
