import os
import subprocess
import sys
import time

import pytest

from diverset.errors import LockedError
from diverset.runtime.locks import file_lock, is_locked

HOLD = """
import sys, time
from pathlib import Path
from diverset.runtime.locks import file_lock
with file_lock(Path(sys.argv[1]), "busy"):
    print("locked", flush=True)
    time.sleep(60)
"""


def test_second_holder_gets_the_given_message(tmp_path):
    path = tmp_path / "lock"
    with file_lock(path, "busy"):
        assert is_locked(path)
        with pytest.raises(LockedError, match="^indexing elsewhere$"):
            with file_lock(path, "indexing elsewhere"):
                pass
    assert not is_locked(path)
    with file_lock(path, "busy"):
        pass


def test_missing_lock_file_is_not_locked_and_not_created(tmp_path):
    assert not is_locked(tmp_path / "lock") and not (tmp_path / "lock").exists()


def test_lock_is_released_by_an_exception(tmp_path):
    with pytest.raises(ZeroDivisionError), file_lock(tmp_path / "lock", "busy"):
        raise ZeroDivisionError
    assert not is_locked(tmp_path / "lock")


def test_lock_of_a_killed_process_is_released(tmp_path):
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"locked\n"
        assert is_locked(path)
        process.kill()
        process.wait()
    deadline = time.monotonic() + 10
    while is_locked(path) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not is_locked(path)
