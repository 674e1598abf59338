"""Every code block of the README is executed as printed, and its numbers are those of the docs."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path

import pytest
from PIL import Image

from diverset.reproduce.scenes import ScenesOptions, write_scenes

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [
    command
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if (command := line.split("#")[0].strip())
]

pytest.importorskip("transformers", reason="pip install 'diverset[photos]'")


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A home folder with photos, and a working folder with a table of captions."""
    folder = tmp_path_factory.mktemp("home")
    options = ScenesOptions(size=64, captions=2)
    captions = write_scenes(folder / "scenes", train=8, val=4, test=4, options=options)
    (folder / "scenes" / "images").rename(folder / "Pictures")
    (folder / "my-data").mkdir()
    (folder / "my-data" / "images").symlink_to(folder / "Pictures")
    with (folder / "my-data" / "captions.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "caption", "split"])
        for image in json.loads(captions.read_text(encoding="utf-8"))["images"]:
            for sentence in image["sentences"]:
                rows.writerow([image["filename"], sentence["raw"], image["split"]])
    return folder


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    own = {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
        "NO_COLOR": "1",
    }
    return os.environ | own


def command_line(command: str, home: Path) -> list[str]:
    """A command of the README with the shell's home folder, run by this Python."""
    words = [word.replace("~", str(home), 1) for word in shlex.split(command)]
    return [sys.executable, "-m", *words]


def run(command: str, home: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        command_line(command, home), cwd=home, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_python_blocks_print_what_the_readme_shows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, color in (("beach.jpg", "khaki"), ("street.jpg", "gray")):
        Image.new("RGB", (320, 240), color).save(name)
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 2
    session: dict[str, object] = {}
    printed = []
    for block in blocks:
        exec(compile(block, "README.md", "exec"), session)
        printed.append(capsys.readouterr().out)
    assert session["images"].shape == (2, 4, 384)
    (shown,) = re.findall(r"```\n(tensor.*?)```", README, re.DOTALL)
    assert without_numbers(printed[0]) == without_numbers(shown)
    assert re.fullmatch(r"beach -?\d\.\d+\n", printed[1])  # the filter leaves one item


def without_numbers(tensor: str) -> str:
    return re.sub(r"-?\d\.\d{4}", "#", tensor).replace(" ", "")


@pytest.mark.slow
def test_photo_commands_index_search_and_serve(home, environment):
    index, search, serve = [c for c in COMMANDS if re.match(r"diverset (index|sea|ser)", c)]
    assert "16 files, 16 encoded" in run(index, home, environment)
    hits = run(search, home, environment).splitlines()
    assert len([line for line in hits if str(home / "Pictures") in line]) == 16  # all, best first
    assert_page_is_served(command_line(serve, home) + ["--port", "0"], home, environment)


def assert_page_is_served(command, home, environment):
    """Start a server, follow the link it prints, and stop it."""
    log = home / "serve.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            command, cwd=home, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as server,
    ):
        try:
            deadline = time.monotonic() + 120
            while not (link := re.search(r"http://127\S+", log.read_text())):
                assert server.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with browser.open(link[0], timeout=60) as response:
                assert "diverset" in response.read().decode()
        finally:
            server.terminate()


@pytest.mark.slow
def test_training_commands_train_and_evaluate(home, environment):
    pytest.importorskip("lightning_fabric", reason="pip install 'diverset[train]'")
    train, evaluate = [c for c in COMMANDS if re.match(r"diverset (train|evaluate)", c)]
    assert "best validation RSUM" in run(train, home, environment)
    assert "4 images, 8 captions" in run(evaluate, home, environment)


def test_no_command_of_the_readme_is_left_out():
    tested = r"diverset (index|search|serve|train|evaluate) |diverset serve$|pip install |make "
    assert all(re.match(tested, command) for command in COMMANDS), COMMANDS


def test_installed_extras_and_make_targets_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for command in COMMANDS:
        if command.startswith("pip"):
            (extra,) = re.findall(r"'\.\[(\w+)\]'", command)
            assert extra in project["optional-dependencies"]
            assert (ROOT / "constraints.txt").exists()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:`|^)make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def document(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def table_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]


def test_the_seeds_of_the_eleven_systems_have_the_means_of_their_page():
    rows = table_rows(document("docs/results/methods.md"))
    names = next(row for row in rows if row[0] == "RSUM" and "VSRN" in row)
    seeds = [row for row in rows if row[0] in ("seed 0", "seed 1")]
    assert len(names) == 15 and len(seeds) == 2
    compared = table_rows(document("docs/results/flickr8k-systems/comparison.md"))
    means = {
        row[0]: float(row[7].split(" ")[0])
        for row in compared
        if len(row) == 12 and " ± " in row[7]
    }
    for name, first, second in list(zip(names, *seeds, strict=True))[1:]:
        full = {"VSE-inf.": "VSE-infinity", "ours": "ours (sets)"}.get(name, name)
        assert means[full] == pytest.approx((float(first) + float(second)) / 2, abs=0.11)


def test_numbers_of_the_results_are_those_of_the_documents():
    pages = sorted((ROOT / "docs" / "results").glob("*.md"))
    results = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    systems = document("docs/systems.md")
    section = README[README.index("## Results") : README.index("## What it cannot do")]
    compared = document("docs/results/flickr8k-systems/comparison.md")
    rows = [row for row in table_rows(section) if len(row) == 5][2:]
    assert len(rows) == 8
    for name, scenes, flickr8k, small, cost in rows:
        for cell in (scenes, flickr8k):
            assert all(number in results for number in cell.split(", ") if number), name
        assert all(f"| {number}" in compared for number in small.split(", ") if number), name
        for number in cost.split(", "):
            assert f"| {number}" in systems, (name, number)
    for number in re.findall(r"\d{3}\.\d", section[section.index("The shipped model") :]):
        assert number in document("src/diverset/weights/photos/README.md")
