from dataclasses import replace
from pathlib import Path

import pytest

from diverset.cli import main
from diverset.errors import DataError, OptionError
from diverset.reproduce.run_studies import run_studies
from diverset.reproduce.studies import STUDIES

RECIPES = Path(__file__).parents[2] / "recipes"


def test_a_dry_run_lists_the_missing_runs(experiment, tmp_path, capsys):
    assert run_studies("similarity", replace(experiment, runs=tmp_path), dry_run=True) == 0
    text = capsys.readouterr().out
    assert text.count("missing") == 8 and "8 runs, 8 to train" in text


def test_a_dry_run_draws_no_images(tmp_path, capsys):
    recipe = str(RECIPES / "scenes.yaml")
    args = ["reproduce", "similarity", "--recipe", recipe, "--seeds", "1", "--dry-run"]
    assert main([*args, "--runs", str(tmp_path / "runs"), "--cache", str(tmp_path)]) == 0
    assert "4 runs, 4 to train" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_all_skips_studies_that_do_not_apply(experiment, capsys):
    assert run_studies("all", replace(experiment, seeds=1), dry_run=True) == 0
    text = capsys.readouterr().out
    assert "noisy-correspondence is skipped: tiny is not on COCO" in text
    assert " runs, " in text and "SCAN, seed 0" in text


def test_the_help_names_every_study(capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    for name in STUDIES:
        assert name in text.replace("- ", "-"), name


def test_wrong_options_are_rejected(experiment):
    with pytest.raises(OptionError, match="study is 'similarty'; choose one of: comparison"):
        run_studies("similarty", experiment)
    with pytest.raises(OptionError, match="seeds is 0"):
        run_studies("similarity", replace(experiment, seeds=0))


def test_a_wrong_split_is_named_before_anything_is_trained(experiment, tmp_path):
    changed = replace(experiment, split="vla", runs=tmp_path / "runs")
    with pytest.raises(DataError, match="has no split 'vla'"):
        run_studies("similarity", changed)
    assert not (tmp_path / "runs").exists()
