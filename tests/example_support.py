"""Runs a script of examples/ in this process, as `python examples/NAME.py ARGUMENTS` would."""

import runpy
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def run_example(name: str, folder: Path, monkeypatch, capsys, *arguments: str) -> str:
    """What the example prints, run in `folder`."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out
