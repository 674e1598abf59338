from diverset.reproduce.results import Result
from diverset.reproduce.tables import RSUM, VARIANCES, cell, result_table


def test_the_papers_column_appears_only_if_it_has_numbers():
    results = [
        Result("a", {"rsum": [1.0, 2.0], "image_log_variance": [-2.0]}, {"rsum": 500.8}),
        Result("b", {"rsum": [1.0]}),
    ]
    lines = result_table(results, [RSUM, *VARIANCES]).splitlines()
    assert lines[0].startswith("| variant | paper: RSUM | RSUM | log variance, images | log")
    assert lines[2] == "| a | 500.8 | 1.5 ± 0.7 | -2.00 | - | 2 |"
    assert lines[3] == "| b | - | 1.0 | - | - | 1 |"


def test_a_cell_without_numbers_says_whether_runs_failed():
    assert cell(Result("a", {}), RSUM) == "-"
    assert cell(Result("a", {}, note="seed 0 failed"), RSUM) == "failed"


def test_a_variant_whose_runs_failed_is_marked():
    failed = Result("GRU", {}, {"rsum": 423.3}, note="seed 0 failed: NaN")
    assert "| GRU | 423.3 | failed | 0 |" in result_table([failed], [RSUM])
