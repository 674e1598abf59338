"""What is released: the wheel works without the repository, and versions agree."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import diverset

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_has_all_that_a_new_user_needs(tmp_path):
    pytest.importorskip("hatchling", reason="pip install 'diverset[release]'")
    pytest.importorskip("transformers", reason="pip install 'diverset[photos]'")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path]
    subprocess.run([*map(str, build), str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "package")
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path / "package"),
        "HOME": str(tmp_path),
        "OMP_NUM_THREADS": "1",
        "NO_COLOR": "1",
    }
    script = [sys.executable, str(ROOT / "scripts" / "smoke_test.py")]
    done = subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"diverset {diverset.__version__} at {tmp_path / 'package'}" in done.stdout


def test_citation_has_the_version_of_the_package():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", text, flags=re.MULTILINE)[1] == diverset.__version__


def extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["optional-dependencies"]


def test_all_contains_every_extra_but_those_for_development():
    found, pending = set(), ["all"]
    while pending:
        name = pending.pop()
        found.add(name)
        for requirement in extras()[name]:
            if named := re.fullmatch(r"diverset\[(.+)\]", requirement):
                pending += named[1].split(",")
    # timm needs torchvision, which diverset does without.
    assert set(extras()) - found == {"timm", "docs", "release", "dev"}


def test_every_named_extra_exists():
    """Extras that errors, documents and workflows ask the reader to install."""
    files = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/workflows/*")]
    files += [*ROOT.glob("src/**/*.py"), *ROOT.glob("examples/*.py"), ROOT / "Makefile"]
    for file in files:
        text = file.read_text(encoding="utf-8")
        for names in re.findall(r"(?:diverset|'\.|\"\.)\[([a-z,]+)\]", text):
            assert set(names.split(",")) <= set(extras()), (file, names)


def test_every_dependency_is_pinned():
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    names = {line.partition("==")[0] for line in pinned.splitlines()}
    for group, requirements in extras().items():
        for requirement in requirements if group != "timm" else []:
            name = re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")
            assert name == "diverset" or name in names, requirement
