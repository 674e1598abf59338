"""The command line from end to end, on tiny things."""

import argparse
import json
import subprocess
import sys

import pytest
import torch
from test_reference import checkpoint, state

import diverset
from diverset import Model, __version__
from diverset.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


def test_help_lists_the_verbs_with_examples(capsys):
    assert main([]) == 2
    text = capsys.readouterr().out
    for verb in (
        "train", "evaluate", "demo", "reproduce", "import-reference", "encode", "index", "search",
        "similar", "caption", "explain", "status", "watch", "export", "serve",
    ):  # fmt: skip
        assert verb in text
        with pytest.raises(SystemExit) as left:
            main([verb, "--help"])
        assert left.value.code == 0
        assert f"example:\n  diverset {verb}" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


def test_a_released_checkpoint_becomes_a_model(tmp_path, capsys):
    torch.save(checkpoint(state()), tmp_path / "best.pth.tar")
    words = ["<pad>", "<start>", "<end>", "<unk>"] + [f"word{n}" for n in range(46)]
    content = {"word2idx": {w: i for i, w in enumerate(words)}, "idx2word": words, "idx": 50}
    (tmp_path / "words.json").write_text(json.dumps(content))
    given = [str(tmp_path / name) for name in ("best.pth.tar", "words.json", "model")]
    assert main(["import-reference", *given]) == 0
    said = capsys.readouterr().out
    assert "K = 4 and 4, D = 32, T = 4, alpha = 8, 50 words" in said
    assert Model.from_pretrained(tmp_path / "model").fingerprint() in said


def test_mistakes_end_with_one_line_and_status_2(tmp_path, capsys):
    assert main(["import-reference", "nowhere.pth.tar", "w.json", str(tmp_path / "m")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("diverset import-reference: cannot read nowhere.pth.tar")
    assert said.count("\n") == 1
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "give the folder of a run" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "r.yaml"), "--out", str(tmp_path / "run")]) == 2
    assert "cannot read the recipe" in capsys.readouterr().err
    for verb in (["evaluate"], ["index", "info"]):
        with pytest.raises(SystemExit) as left:
            main([*verb, "x", "--no-such-option"])
        said = capsys.readouterr().err
        assert left.value.code == 2 and "unrecognized arguments: --no-such-option" in said
        assert said.startswith(f"usage: diverset {' '.join(verb)} ")


def test_recipe_options_are_listed(tmp_path, capsys):
    (tmp_path / "r.yaml").write_text("about: a trial\n")
    with pytest.raises(SystemExit) as left:
        main(["train", str(tmp_path / "r.yaml"), "--out", "x", "--options"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert "a trial" in said and "--optim.lr" in said and "--loss.margin" in said


@pytest.mark.slow
def test_the_demo_goes_the_whole_way(tmp_path, capsys):
    out = tmp_path / "demo"
    assert main(["demo", "--out", str(out), "--epochs", "1", "--pictures", "64"]) == 0
    said = capsys.readouterr().out
    assert "sets of 4" in said and "one vector" in said and "report.html" in said
    page = (out / "report.html").read_text()
    assert page.count("<img") == 6 * 5 + 4 * 5 and "slot 4:" in page
    assert main(["evaluate", str(out / "sets-of-4"), "--json", str(tmp_path / "r.json")]) == 0
    assert "rsum" in json.loads((tmp_path / "r.json").read_text())
    capsys.readouterr()
    assert main(["evaluate", str(out / "sets-of-4"), "--against", str(out / "one-vector")]) == 0
    assert "paired bootstrap, 10,000 drawings" in capsys.readouterr().out


def test_namespaces_are_plain():
    """The released code's arguments are read as an argparse namespace and nothing else."""
    assert isinstance(checkpoint({})["args"], argparse.Namespace)


def test_help_does_not_wait_for_torch():
    script = "import sys; from diverset.cli import main; main([]); print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.stdout.strip().endswith("False"), found.stderr


def test_a_missing_extra_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "pip install 'diverset[train]'" in capsys.readouterr().err


def test_every_public_name_is_there():
    for name in diverset.__all__:
        assert getattr(diverset, name) is not None
    assert set(diverset.__all__) <= set(dir(diverset))
    with pytest.raises(AttributeError, match="no attribute 'Modell'"):
        _ = diverset.Modell
