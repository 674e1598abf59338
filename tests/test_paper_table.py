"""docs/paper.md names files, functions, studies and recipes that exist."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

from diverset.cli import _parser
from diverset.recipe.run_folder import read_recipe
from diverset.reproduce.studies import STUDIES

ROOT = Path(__file__).parent.parent
CELLS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "paper.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| ---")
]
ROWS = [row for row in CELLS if any(cell.endswith(".py") for cell in row)]
COMMANDS = sorted(
    {cell.strip("`") for row in CELLS for cell in row if cell.startswith("`diverset ")}
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}: {row[1]}")
def test_every_file_and_name_exists(row):
    position = next(i for i, cell in enumerate(row) if cell.endswith(".py"))
    file, names = row[position], re.findall(r"`([\w.]+)`", row[position + 1])
    assert names
    module = importlib.import_module("diverset." + file.removesuffix(".py").replace("/", "."))
    assert Path(module.__file__ or "") == ROOT / "src" / "diverset" / file
    for name in names:
        value = module
        for part in name.split("."):
            value = getattr(value, part)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_existing_study_and_recipe(command):
    arguments = shlex.split(command)[1:]
    args, _ = _parser().parse_known_args(arguments)
    recipe = next(argument for argument in arguments if argument.endswith(".yaml"))
    read_recipe(ROOT / recipe)
    if arguments[0] == "reproduce":
        assert args.study in STUDIES


def test_every_equation_table_figure_and_study_is_listed():
    first = " ".join(row[0] for row in CELLS)
    for name in [f"Eq. {n}" for n in range(1, 10)] + [f"Tab. {n}" for n in (1, 2, 3, 4, 5, "A1")]:
        assert name in first, name
    for figure in ("Fig. 1-3", "Fig. 4, A2, A3", "Fig. A1"):
        assert figure in first, figure
    listed = {command.split()[2] for command in COMMANDS if "reproduce" in command}
    assert listed == set(STUDIES) - {"ambiguity"}  # which the paper does not have
