"""What the documents name is there: names of the API, files, pictures, verbs and their options."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import diverset
from diverset.cli import _parser

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def api() -> list[str]:
    """Full names of the rows of docs/api.md, under the module that their heading names."""
    found, module = [], ""
    for line in (ROOT / "docs" / "api.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            several = line.count("`diverset") > 1
            module = "diverset" if several else line.split("`")[1]
        elif row := re.match(r"\| `([\w.]+)` \|", line):
            found.append(f"{module}.{row[1]}")
    return found


def test_every_name_of_the_api_is_there():
    names = api()
    assert len(names) > 45
    for name in names:
        module, _, last = name.rpartition(".")
        assert hasattr(importlib.import_module(module), last), name
    door = {f"diverset.{name}" for name in diverset.__all__}
    modules = {f"diverset.{name}" for name in diverset._MODULES}
    assert door - modules - set(names) == set()


def test_examples_of_the_api_are_python_and_name_arguments_that_exist():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \| .*?: `(.+?)`", text, flags=re.MULTILINE)
    assert len(rows) > 20
    for name, example in rows:
        ast.parse(example if not example.startswith(".") else "x" + example)
        assert name.split(".")[-1] in example or example.startswith("."), name
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, one.name) for one in node.names)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_pictures_and_commands(document):
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (document.parent / target).exists(), target
    verbs = next(one for one in _parser()._actions if one.dest == "verb").choices
    commands = "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL))
    for verb, rest in re.findall(r"^diverset ([a-z-]+)(.*)$", commands, flags=re.MULTILINE):
        assert verb in verbs, verb
        words = rest.split("#")[0].split()
        parser = verbs[verb]
        nested = [one for one in parser._actions if one.dest == "command"]
        if nested:
            parser = nested[0].choices.get(words[0] if words else "", nested[0].choices["add"])
        known = {name for one in parser._actions for name in one.option_strings}
        for option in re.findall(r"(?<=\s)--[\w.-]+", rest.split("#")[0]):
            assert option in known or "." in option, (verb, option)


def test_pictures_are_small():
    for path in (ROOT / "docs" / "pictures").iterdir():
        assert path.suffix in (".webp", ".png") and path.stat().st_size < 150_000, path
