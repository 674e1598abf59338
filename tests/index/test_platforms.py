"""Storage does not need what only some systems have."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import diverset
from diverset.runtime import files

SOURCES = Path(diverset.__file__).parent
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios"}
POSIX_CALLS = {"fork", "forkpty", "getuid", "geteuid", "killpg", "mkfifo", "setsid", "sync"}
POSIX_CALLS |= {"chown", "getloadavg", "link", "nice", "pread", "pwrite", "statvfs", "symlink"}


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


def imported_at_once(tree: ast.Module) -> Iterator[str]:
    """Modules without which a file cannot be imported: not those in functions and in `try`."""
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            yield from (name.name for name in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            yield statement.module or ""


def test_no_module_needs_what_windows_lacks():
    imports, calls = [], []
    for file in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        name = str(file.relative_to(SOURCES))
        imports += [(name, module) for module in imported_at_once(tree) if module in POSIX_MODULES]
        calls += [
            (name, node.attr)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "os"
            and node.attr in POSIX_CALLS
        ]
    assert imports == []
    assert calls == []
