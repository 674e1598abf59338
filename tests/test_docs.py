"""The documents name only what exists: public names, files, commands and their options."""

import argparse
import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import diverset
from diverset.cli import _parser
from diverset.recipe.named import named_recipes
from diverset.training.train import parse_recipe

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "src" / "diverset" / "weights" / "photos" / "README.md",
]


def documented_names() -> list[str]:
    """Full names of the rows of docs/api.md, under the module that their heading names."""
    names, module = [], ""
    for line in (ROOT / "docs" / "api.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            module = "diverset" if line.count("`diverset") > 1 else line.split("`")[1]
        elif row := re.match(r"\| `([\w.]+)` \|", line):
            names.append(f"{module}.{row[1]}")
    return names


def test_every_documented_name_can_be_imported():
    names = documented_names()
    assert len(names) > 45
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_every_public_name_is_documented_and_can_be_imported():
    documented = set(documented_names())
    for name in diverset.__all__:
        if not isinstance(getattr(diverset, name), ModuleType):
            assert f"diverset.{name}" in documented


def test_importing_diverset_does_not_import_torch():
    code = "import diverset, sys; dir(diverset); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_api_examples_are_python_and_name_their_row():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| .*?: `(.+?)`", text, flags=re.MULTILINE)
    assert len(rows) > 20
    for name, example in rows:
        ast.parse(example if not example.startswith(".") else "x" + example)
        assert name.split(".")[-1] in example or example.startswith("."), name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_blocks_are_python_and_name_what_exists(document):
    """Also where a block cannot run: it needs data or a server. Those of the README run."""
    text = document.read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names)
            elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "diverset":
                assert hasattr(diverset, node.attr), node.attr


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The subcommands of a parser by name."""
    actions = [action for action in parser._actions if isinstance(action.choices, dict)]
    return actions[0].choices if actions else {}


def documented_commands(text: str) -> list[str]:
    """Commands in shell blocks, indented blocks and inline code, each on one line."""
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in re.sub(r"\\\n *", "", block).splitlines()]
    lines += [line.strip() for line in re.findall(r"^    diverset .*$", text, flags=re.MULTILINE)]
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    lines += [" ".join(code.split()) for code in re.findall(r"`(diverset [^`]+)`", prose)]
    return [line.split("#")[0] for line in lines if re.match(r"diverset [a-z]", line)]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(document):
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_their_options_exist(document):
    if document.name == "log.md":
        pytest.skip("the log keeps the commands of the day of each entry")
    for command in documented_commands(document.read_text(encoding="utf-8")):
        parser, words = _parser(), command.split()[1:]
        while words and (verbs := subcommands(parser)):
            names = words.pop(0).split("|")
            assert all(name in verbs or name in ("VERB", "...") for name in names), command
            parser = verbs.get(names[0], parser)
        takes_overrides = parser.get_default("takes_overrides")
        known = {name for action in parser._actions for name in action.option_strings}
        for option in re.findall(r"(?<=\s)\[?(--[\w.-]+)", command):
            assert option in known or ("." in option and takes_overrides), (command, option)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_overrides_of_recipes_have_valid_names_and_values(document):
    if document.name == "log.md":
        pytest.skip("the log keeps the commands of the day of each entry")
    for command in set(documented_commands(document.read_text(encoding="utf-8"))):
        named = re.search(r"diverset (?:train|data) (\w+) ", command)
        recipe = re.search(r"recipes/\w+\.yaml", command)
        overrides = re.findall(r"(--\w+\.[\w.]+) (\S+)", command)
        values = [(name, value) for name, value in overrides if not value.isupper()]  # not SEED
        file = str(ROOT / recipe[0]) if recipe else named[1] if named else None
        if file in named_recipes() or (recipe and Path(file).exists()):
            parse_recipe(file, [word for pair in values for word in pair])


def test_images_of_the_documents_are_small_and_used():
    texts = "".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    for path in (ROOT / "docs" / "images").iterdir():
        assert path.suffix in (".webp", ".png") and path.stat().st_size < 150_000, path
        assert path.name in texts, path
