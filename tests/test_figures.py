"""scripts/draw_figures.py: its numbers are read from the documents, and every figure is used."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="pip install 'diverset[analysis]'")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def figures():
    spec = importlib.util.spec_from_file_location("figures", ROOT / "scripts" / "draw_figures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_system_of_the_page_is_plotted(figures):
    systems = {name: (rsum, cost) for name, rsum, cost in figures.systems()}
    assert len(systems) == 11
    assert systems["ours (sets)"][1] < systems["SCAN"][1] < systems["IMRAM"][1]


def test_reliability_has_all_deciles(figures):
    rows = figures.reliability()
    assert len(rows) == 6
    for name, points in rows.items():
        assert len(points) == (9 if "any image" in name else 10)
        assert [probability for probability, _ in points] == sorted(p for p, _ in points)


def test_figures_are_drawn_and_stored(figures, tmp_path):
    figures.main(tmp_path)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {"method.webp", "alpha.webp", "cost-recall.webp", "reliability.webp"}
    assert drawn <= {path.name for path in (ROOT / "docs" / "images").iterdir()}
