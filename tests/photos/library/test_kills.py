"""What survives kill -9 of indexing, snapshots, restores and copies."""

import json
import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_library_survives_kill_9_at_any_moment(tmp_path):
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-m", "photos.library.kill_library", str(tmp_path), "3"],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kill_restores"] == 3
