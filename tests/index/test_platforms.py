"""Storage does not need what only some systems have."""

import os
import subprocess
import sys

import pytest

from diverset.runtime import files


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="finds open files in /proc")
def test_storage_works_without_fcntl_and_where_open_files_cannot_be_deleted(tmp_path):
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "index.other_platform", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_disk_is_told_to_empty_its_cache_where_the_system_can(tmp_path, monkeypatch):
    calls = []

    class MacFcntl:
        F_FULLFSYNC = 51

        @staticmethod
        def fcntl(descriptor: int, command: int) -> None:
            calls.append(command)

    monkeypatch.setattr(files, "fcntl", MacFcntl)
    files.write_durably(tmp_path / "file", b"content")
    assert calls == [51, 51]  # the file and its folder
    assert (tmp_path / "file").read_bytes() == b"content"
