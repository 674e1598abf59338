"""The scripts in examples/ run as they are and print what they promise."""

import re
from pathlib import Path

import pytest
from example_support import EXAMPLES, run_example
from PIL import Image

pytest.importorskip("transformers", reason="pip install 'diverset[photos]'")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    return lambda name, *arguments: run_example(name, tmp_path, monkeypatch, capsys, *arguments)


def test_encode_and_compare_prints_a_score_per_pair(run, tmp_path):
    Image.new("RGB", (64, 48), "khaki").save(tmp_path / "beach.jpg")
    lines = run("encode_and_compare", "beach.jpg", "--texts", "sand", "a car").splitlines()
    assert lines[0] == "image sets (1, 4, 384), text sets (2, 4, 384): (items, K, D)"
    assert re.fullmatch(r"beach.jpg: '(sand|a car)' fits best \[-?0\.\d+, -?0\.\d+\]", lines[1])


def test_train_on_csv_trains_evaluates_and_loads_the_model(run, tmp_path):
    printed = run("train_on_csv", "--epochs", "1", "--out", "runs/a")
    assert "16 images, 80 captions" in printed
    assert "the set of a text: (1, 4, 128)" in printed
    assert (tmp_path / "scenes" / "captions.csv").read_text().startswith("image,caption,split\n")


def test_explain_match_draws_one_overlay_per_element(run, tmp_path):
    printed = run("explain_match")
    shares = [float(share) for share in re.findall(r"0\.\d+", printed)]
    assert len(shares) == 4 and sum(shares) == pytest.approx(1, abs=0.03)
    with Image.open(tmp_path / "match.png") as drawn:
        assert drawn.width > 2 * drawn.height


def test_evaluate_coco_eccv_reports_every_benchmark(run, tmp_path):
    pytest.importorskip("eccv_caption", reason="pip install 'diverset[eccv]'", exc_type=ImportError)
    printed = run("evaluate_coco_eccv", "--cache", "cache")
    for benchmark in ("eccv_map_at_r", "cxc_r1", "coco_5k_r10", "images: 12 of 5,000"):
        assert benchmark in printed


def test_own_set_module_learns(run):
    before, after = map(float, re.findall(r"training: ([\d.]+)", run("own_set_module")))
    assert after > before + 50


def test_every_example_is_listed_in_their_readme():
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*.ipynb")]:
        assert f"]({path.name})" in listed, path.name


def test_every_script_says_how_it_is_run():
    for path in Path(EXAMPLES).glob("*.py"):
        assert f"    python examples/{path.name}" in path.read_text(encoding="utf-8")
