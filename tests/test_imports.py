"""The import graph of the package: no cycles, and no loose modules at the top."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = SOURCE / "diverset"


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph() -> dict[str, set[str]]:
    """The modules that each module imports, lazy imports inside functions included.

    The lazy public door (`diverset/__init__`) is left out: it names modules of every layer. So are
    the package initialisers, which Python runs before any module of their package.
    """
    paths = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    graph = {}
    for name, path in paths.items():
        if path.name == "__init__.py":
            continue
        imported: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
        graph[name] = {
            target for target in imported & paths.keys() if paths[target].name != "__init__.py"
        }
    return graph


def test_no_import_cycles_even_through_lazy_imports():
    try:
        TopologicalSorter(import_graph()).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_graph_sees_imports_inside_functions():
    assert "diverset.cli" not in import_graph()["diverset.config"]
    assert any(
        target.startswith("diverset.training") for target in import_graph()["diverset.cli.train"]
    )


def test_no_loose_modules_at_the_top():
    modules = {path.stem for path in PACKAGE.glob("*.py")}
    assert modules == {"__init__", "__main__", "config", "errors", "types"}
