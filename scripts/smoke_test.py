"""Uses an installed diverset as a new user would, without its repository.

    python smoke_test.py

Draws photos, indexes and searches them with the shipped model, trains a recipe by name and loads
the result. Works in the current folder.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def diverset(*words: str) -> str:
    """Run the command line; its output, also where it fails."""
    command = [str(Path(sys.executable).with_name("diverset")), *words]
    print("+ diverset", " ".join(words), flush=True)
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    print(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}")
    return done.stdout


def main() -> None:
    import diverset as package
    from diverset.reproduce.scenes import ScenesOptions, write_scenes

    print(f"diverset {package.__version__} at {Path(package.__file__).parent}")
    assert "search" in diverset("--help")
    write_scenes("photos", train=12, val=12, test=12, options=ScenesOptions(size=64))
    diverset("index", "photos/images", "--library", "library")
    found = diverset("search", "a bird", "--paths", "-n", "3", "--library", "library")
    assert len(found.splitlines()) == 3 and all(Path(line).exists() for line in found.splitlines())
    training = ["--data.root", "photos", "--train.epochs", "1", "--train.batch_size", "6"]
    diverset("train", "scenes", "--out", "runs/a", *training)
    assert "RSUM" in diverset("evaluate", "runs/a", "--split", "test")
    assert package.load("runs/a").encode_texts("a red house").shape == (1, 4, 128)
    print("smoke test passed")


if __name__ == "__main__":
    main()
