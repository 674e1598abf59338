"""Default folders of the user for data and caches."""

from pathlib import Path

import platformdirs


def user_data_folder() -> Path:
    """Where photo libraries live by default; on Linux ~/.local/share/diverset."""
    return platformdirs.user_data_path("diverset", appauthor=False)


def user_cache_folder() -> Path:
    """Where extracted features live by default; on Linux ~/.cache/diverset."""
    return platformdirs.user_cache_path("diverset", appauthor=False)
