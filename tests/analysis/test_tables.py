"""What is written down: cells, columns, and the command that gives a page again."""

import json
from dataclasses import replace

from diverset.analysis.outcomes import Outcome
from diverset.analysis.plots import plot_rows
from diverset.analysis.tables import RSUM, VARIANCES, Page, cell, outcome_table, write_page
from diverset.analysis.verdicts import Verdict


def test_the_papers_column_is_there_only_where_it_has_figures():
    rows = [
        Outcome("a", {"rsum": [1.0, 2.0], "image_log_variance": [-2.0]}, {"rsum": 500.8}),
        Outcome("b", {"rsum": [1.0]}),
    ]
    lines = outcome_table(rows, [RSUM, *VARIANCES]).splitlines()
    assert lines[0].startswith("| row | paper: RSUM | RSUM | log variance, images | log")
    assert lines[2] == "| a | 500.8 | 1.5 ± 0.7 | -2.00 | - | 2 |"
    assert lines[3] == "| b | - | 1.0 | - | - | 1 |"


def test_a_cell_without_numbers_says_whether_runs_failed():
    assert cell(Outcome("a", {}), RSUM) == "-"
    assert cell(Outcome("a", {}, note="seed 0 failed"), RSUM) == "failed"


def test_a_page_tells_how_to_get_it_again_without_paths(bench):
    given = ("--train.epochs", "3", "--data.root", "/somewhere", "--optim.lr=0.1")
    page = Page("similarity", "Title", "About.", ["table"], [Verdict("a > b", "holds", "1 - 0")])
    target = write_page(replace(bench, overrides=given), page)
    text = target.read_text()
    asked = "diverset reproduce similarity --recipe tiny.yaml --seeds 2"
    assert (
        f"`{asked} --train.epochs 3 --data.root DATA --optim.lr=0.1`" in text
        and "/somewhere" not in text
    )
    assert "| a > b | **holds** | 1 - 0 |" in text
    stored = json.loads(target.with_suffix(".json").read_text())
    assert stored["claims"] == [{"claim": "a > b", "answer": "holds", "numbers": "1 - 0"}]
    joined = replace(bench, overrides=("--data.root=/somewhere", "--train.epochs", "3"))
    assert f"`{asked} --data.root DATA --train.epochs 3`" in write_page(joined, page).read_text()
    tested = replace(bench, split="test", overrides=())
    assert f"`{asked} --split test`" in write_page(tested, page).read_text()


def test_a_plot_without_its_base_row_is_left_out(tmp_path):
    rows = [Outcome("a", {"rsum": [1.0]}), Outcome("b", {})]
    assert plot_rows(tmp_path / "x.png", "Title", rows, base="b") == []
    assert plot_rows(tmp_path / "x.png", "Title", rows, base="a") == ["x.png"]
    again = tmp_path / "again.png"
    plot_rows(again, "Title", rows, base="a")
    assert again.with_suffix(".svg").read_bytes() == (tmp_path / "x.svg").read_bytes()
