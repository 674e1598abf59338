import sys
from pathlib import Path

import pytest

from diverset.runtime.folders import user_cache_folder, user_data_folder

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="paths of Linux")


def test_defaults_follow_the_xdg_standard(monkeypatch):
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert user_data_folder() == Path.home() / ".local/share/diverset"
    assert user_cache_folder() == Path.home() / ".cache/diverset"


def test_xdg_variables_are_respected(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert user_data_folder() == tmp_path / "data" / "diverset"
    assert user_cache_folder() == tmp_path / "cache" / "diverset"
