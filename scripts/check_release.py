"""Build wheel and sdist, check them, and try the wheel in an empty environment.

    python scripts/check_release.py               build, twine check, install, smoke test
    python scripts/check_release.py --tag v0.1.0  also compare the version with a tag

The environment is new and has no access to the repository. The installation takes the versions of
constraints.txt and downloads a few hundred MB; the rest takes about a minute.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
EXTRAS = "photos,train"
LARGEST = 60_000_000  # bytes of a package; the weights of the model photos are 37 MB
SMOKE_TEST = ROOT / "scripts" / "smoke_test.py"


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    print("+", " ".join(map(str, command)), flush=True)
    subprocess.run([str(word) for word in command], cwd=cwd, env=env, check=True)


def build(out: Path) -> tuple[Path, Path]:
    """Wheel and sdist; the wheel is built from the sdist, as pip would.

    The wheel is for every platform, so it has no compiled kernel; an installation from the sdist
    compiles it (docs/adr/0009-compiled-kernel.md).
    """
    shutil.rmtree(out, ignore_errors=True)
    env = os.environ | {"DIVERSET_KERNEL": "no"}
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, env=env)
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
    return wheel, sdist


def check_contents(wheel: Path, sdist: Path) -> None:
    """Both packages have the model, the recipes and the page, and nothing that is not ours."""
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    needed = (
        "weights/photos/model.safetensors",
        "weights/photos/calibration.json",
        "photos/serve/static/index.html",
        "py.typed",
        "__init__.pyi",
    )
    for name in needed:
        require(f"diverset/{name}" in in_wheel, f"{name} is missing in {wheel.name}")
        require(f"src/diverset/{name}" in in_sdist, f"{name} is missing in {sdist.name}")
    for recipe in (ROOT / "recipes").glob("*.yaml"):
        require(f"diverset/recipes/{recipe.name}" in in_wheel, f"{recipe.name} is missing")
    strangers = {name for name in in_wheel if not name.startswith(("diverset/", "diverset-"))}
    require(not strangers, f"the wheel has other files: {sorted(strangers)[:3]}")
    for path in (wheel, sdist):
        size = path.stat().st_size
        require(size < LARGEST, f"{path.name} has {size / 1e6:.0f} MB")
        print(f"{path.name}: {size / 1e6:.1f} MB")


def require(condition: bool, message: str) -> None:
    if not condition:
        raise SystemExit(f"release check failed: {message}")


def try_wheel(wheel: Path, folder: Path) -> None:
    """Install the wheel into a new environment and use it there."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    constraints = ROOT / "constraints.txt"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run(*pip, "-c", constraints, f"{wheel}[{EXTRAS}]", cwd=folder)
    script = shutil.copy(SMOKE_TEST, folder / "smoke_test.py")
    home = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run(python, script, cwd=folder, env=home | {"HOME": str(folder), "XDG_DATA_HOME": ""})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tag", default="", help="the tag of the release, v and the version")
    parser.add_argument("--no-install", action="store_true", help="only build and check the files")
    args = parser.parse_args()
    wheel, sdist = build(DIST)
    version = wheel.name.split("-")[1]
    require(args.tag in ("", f"v{version}"), f"the tag is {args.tag}, the version {version}")
    check_contents(wheel, sdist)
    if not args.no_install:
        with tempfile.TemporaryDirectory() as folder:
            try_wheel(wheel, Path(folder))
    print(f"diverset {version} is ready: {wheel.name}, {sdist.name}")


if __name__ == "__main__":
    main()
