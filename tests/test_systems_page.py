"""docs/systems.md names existing files and recipes, the paper's numbers, and can be updated."""

import importlib.util
import re
from pathlib import Path

from diverset.recipe.named import named_recipes
from diverset.reproduce.paper_numbers import OURS, PAPER
from diverset.reproduce.results import Result

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
ROWS = {
    cells[0]: cells
    for line in PAGE.splitlines()
    if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 9
}
SETTINGS = {"VSE++": "ResNet-152", "PVSE": "ResNet-152", "PCME": "ResNet-152", OURS: "regions"}


def update_script():
    spec = importlib.util.spec_from_file_location("update", ROOT / "docs" / "update_systems.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_system_of_the_paper_has_a_row_with_its_file_and_recipes():
    assert set(ROWS) >= set(PAPER["Flickr30K"])
    for name in PAPER["Flickr30K"]:
        assert (ROOT / "src" / "diverset" / ROWS[name][2]).exists()
        recipes = re.findall(r"`(\w+)`", ROWS[name][3])
        assert recipes and set(recipes) <= set(named_recipes())


def test_published_numbers_are_those_of_the_paper():
    for name, settings in PAPER["Flickr30K"].items():
        setting = SETTINGS.get(name, next(iter(settings)))
        marks = "+" if setting.endswith("+") else ""
        shown = [
            "-" if numbers[-1] is None else f"{numbers[-1]:.1f}{marks}"
            for numbers in (PAPER[data][name][setting] for data in ("Flickr30K", "COCO 5K"))
        ]
        assert ROWS[name][4] == " / ".join(shown)


def test_measured_columns_are_replaced_and_others_kept():
    values = {
        "rsum": [300.0, 302.0],
        "minutes": [1.0, 2.0],
        "pair_kflops": [0.5],
        "retrieval_ms": [7.25],
    }
    page = update_script().updated(PAGE, {"variants": [Result("NAAF", values).to_dict()]})
    (row,) = (line for line in page.splitlines() if line.startswith("| NAAF"))
    assert row.endswith("| 513.2+ / 430.9+ | 301.0 ± 1.4 | 1.5 ± 0.7 | 0.5 | 7.2 |")
    assert page.count("\n") == PAGE.count("\n")
    without = [line for line in page.splitlines() if not line.startswith("| NAAF")]
    assert without == [line for line in PAGE.splitlines() if not line.startswith("| NAAF")]
