"""`diverset train`, `evaluate`, `demo` and `import-reference` from end to end, on tiny data."""

import json
import re
import subprocess
import sys

import pytest
import torch
from model.test_reference import checkpoint, state
from PIL import Image

import diverset
from diverset import Model
from diverset.cli import main
from diverset.evaluation.open_run import open_recipe
from diverset.reproduce.demo import Budget, run_demo

CAPTIONS = """image,caption,split
a.png,a black square,train
b.png,a dark square,train
a.png,a black square,val
b.png,a dark square,val
a.png,a black square,test
"""
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


def test_a_released_checkpoint_becomes_a_model(tmp_path, capsys):
    torch.save(checkpoint(state()), tmp_path / "best.pth.tar")
    words = ["<pad>", "<start>", "<end>", "<unk>"] + [f"word{n}" for n in range(46)]
    content = {"word2idx": {w: i for i, w in enumerate(words)}, "idx2word": words, "idx": 50}
    (tmp_path / "words.json").write_text(json.dumps(content))
    paths = [str(tmp_path / name) for name in ("best.pth.tar", "words.json", "model")]
    assert main(["import-reference", *paths]) == 0
    output = capsys.readouterr().out
    assert "K = 4 and 4, D = 32, T = 4, alpha = 8, 50 words" in output
    assert Model.from_pretrained(tmp_path / "model").fingerprint() in output


def test_options_of_a_recipe_are_listed_and_explained(tmp_path, capsys):
    (tmp_path / "r.yaml").write_text("about: a trial\n")
    with pytest.raises(SystemExit) as exit_:
        main(["train", str(tmp_path / "r.yaml"), "--options"])
    assert exit_.value.code == 0
    output = capsys.readouterr().out
    assert "a trial" in output and "--optim.lr" in output and "--loss.margin" in output
    assert "Weight of the paper's diversity loss." in output


def test_recipes_are_found_by_name(capsys):
    with pytest.raises(SystemExit):
        main(["train", "scenes", "--options"])
    assert "scenes: generated images" in capsys.readouterr().out
    assert main(["train", "scened", "--out", "run"]) == 2
    error = capsys.readouterr().err
    assert "no recipe 'scened'" in error and "photos, photos_second, scenes" in error


def test_an_initial_model_is_given_in_short_form(tmp_path, capsys):
    (tmp_path / "captions.csv").write_text(CAPTIONS)
    for name in ("a.png", "b.png"):
        Image.new("RGB", (32, 32)).save(tmp_path / name)
    command = ["train", "scenes", "--out", str(tmp_path / "run"), "--data.root", str(tmp_path)]
    command += ["--data.format", "table", "--data.file", "captions.csv", "--data.images", "."]
    assert main([*command, "--init", "photos"]) == 2
    assert "model.dim is 128, but the initial model photos has 384" in capsys.readouterr().err
    assert main([*command, f"--init={tmp_path}"]) == 2
    assert "is not the folder of a run or a model" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_home_folder_is_expanded_in_options_and_recipes(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "captions.csv").write_text(CAPTIONS)
    (tmp_path / "r.yaml").write_text("data: {format: table, root: '~', file: captions.csv}\n")
    assert main(["data", "~/r.yaml", "--quick"]) == 0
    assert main(["data", "~/r.yaml", "--quick", "--data.root=~/nowhere"]) == 2
    assert str(tmp_path / "nowhere" / "captions.csv") in capsys.readouterr().err


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "diverset", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == diverset.__version__


def test_a_mistake_in_the_options_leaves_no_run_folder(tmp_path, capsys):
    (tmp_path / "r.yaml").write_text("data: {format: table, file: captions.csv}\n")
    command = ["train", str(tmp_path / "r.yaml"), "--out", str(tmp_path / "run")]
    assert main([*command, "--train.epoch", "3"]) == 2
    assert "--train.epoch" in capsys.readouterr().err
    assert main([*command, "--data.root", str(tmp_path / "nowhere")]) == 2
    assert "captions.csv" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_folder_of_photos_does_not_hide_the_shipped_model(tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "COCO" in open_recipe("photos").about


@pytest.mark.parametrize("number", ["0", "-1", "x"])
def test_elements_on_the_command_line_count_from_1(number, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["evaluate", "run", "--image-elements", number])
    assert exit_.value.code == 2 and "--image-elements" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("demo --epochs 0", "argument --epochs: '0' is not a whole number above 0"),
        ("search dog -n x", "argument -n: 'x' is not a whole number above 0"),
        ("watch --every -1", "argument --every: '-1' is not a number above 0"),
        ("serve --max-megabytes inf", "argument --max-megabytes: 'inf' is not a number above 0"),
    ],
)
def test_numbers_outside_of_their_range_are_reported_in_one_line(command, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(command.split())
    name = f"diverset {command.split()[0]}"
    assert exit_.value.code == 2
    assert capsys.readouterr().err == f"{name}: {message}; see {name} --help\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["evaluate", "photos", "--device", "gpu"], "device is 'gpu'; give auto, cpu"),
        (["evaluate", "photos", "--protocol", "1k"], "protocol is '1k'; choose one of"),
        (["train", "scenes", "--out", "x", "--loss.margin", "wide"], "Got value: wide; `diverset"),
        (["evaluate", "photos"], "give the folder of the data: --data.root, or --data"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_option_is_one_line_with_the_next_step(
    command, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line


def test_demo_trains_and_its_runs_can_be_evaluated(tmp_path, capsys):
    out = tmp_path / "demo"
    run_demo(out, Budget(single=32, single_epochs=1, images=32, epochs=1, val=50, test=24, jobs=0))
    output = capsys.readouterr().out
    counted = re.search(r"right image first, of 6: sets of 4 (\d), one vector (\d)", output)
    assert counted and f"diverset serve --library {out}/library" in output
    page = (out / "report.html").read_text()
    # The task, three hits of two models for six queries, four scenes with four slots each.
    assert page.count("<img") == 1 + 6 * 2 * 3 + 4 * 5
    assert f"<b>{counted[1]} of 6</b>" in page and f"{counted[2]} of 6 with one vector" in page
    assert "http://" not in page and "https://" not in page
    assert main(["status", "--library", str(out / "library"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["images"] == 24
    assert main(["search", "a red house", "--library", str(out / "library"), "--paths"]) == 0
    assert str(out / "photos") in capsys.readouterr().out
    run, other = str(out / "sets-of-4"), str(out / "one-vector")
    assert main(["evaluate", run, "--against", other]) == 0
    assert "paired bootstrap, 10,000 resamples" in capsys.readouterr().out
    assert main(["evaluate", run, "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)["rsum"]
    # A model folder without its recipe is evaluated on data that the options describe.
    where = ["--data", str(out / "scenes"), "--format", "karpathy", "--images", "images"]
    where += ["--file", "dataset_scenes.json"]
    assert main(["evaluate", f"{run}/model", "--json", *where]) == 0
    assert json.loads(capsys.readouterr().out)["rsum"] == expected
    assert main(["evaluate", f"{run}/model"]) == 2
    assert "give --data" in capsys.readouterr().err
    assert main(["evaluate", run, "--text-elements", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rsum"] <= 600
    assert main(["evaluate", run, "--text-elements", "5"]) == 2
