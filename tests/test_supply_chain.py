"""locked.txt has the versions of constraints.txt, and pip accepts only the files that it lists."""

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OPTIONS = ["--require-hashes", "--no-deps", "--only-binary", ":all:"]  # of make install-locked
LOCKED = re.compile(r"^(\S+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)


def test_every_pinned_version_but_that_of_torch_is_locked():
    constraints = set((ROOT / "constraints.txt").read_text().split())
    text = (ROOT / "locked.txt").read_text()
    locked = {f"{name}=={version}" for name, version, _ in LOCKED.findall(text)}
    torch = {line for line in constraints if line.startswith("torch==")}
    assert len(torch) == 1
    assert locked == constraints - torch, "run scripts/lock.py"


def test_the_lock_names_versions_and_hashes_and_nothing_else():
    text = (ROOT / "locked.txt").read_text()
    rest = LOCKED.sub("", text)
    assert [line for line in rest.splitlines() if line and not line.startswith("#")] == []
    assert "://" not in text


def test_the_makefile_installs_only_locked_wheels():
    lines = (ROOT / "Makefile").read_text().splitlines()
    [command] = [line for line in lines if "-r locked.txt" in line]
    assert " ".join(OPTIONS) in command


@pytest.fixture
def wheel(tmp_path):
    file = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("tiny.py", "VALUE = 1\n")
        for name, text in {
            "METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
            "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "RECORD": "",
        }.items():
            archive.writestr(f"tiny-1.0.dist-info/{name}", text)
    return file


@pytest.mark.parametrize("changed", [False, True])
def test_a_file_with_another_hash_is_not_installed(wheel, tmp_path, changed):
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    lock = tmp_path / "locked.txt"
    lock.write_text(f"tiny==1.0 \\\n    --hash=sha256:{digest}\n")
    if changed:
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.comment = b"changed"
    target = tmp_path / "target"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--isolated", "install", *OPTIONS]
        + ["--no-index", "--find-links", str(tmp_path), "--target", str(target), "-r", str(lock)],
        capture_output=True,
        text=True,
    )
    assert (target / "tiny.py").exists() is not changed, done.stderr
    assert ("DO NOT MATCH THE HASHES" in done.stderr) is changed
