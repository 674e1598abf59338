"""The command line as a whole: help, errors, exit codes."""

import subprocess
import sys

import pytest

from diverset import __version__
from diverset.cli import GROUPS, main

VERBS = {
    "search your photos": "index search similar caption explain watch status verify "
    "snapshot restore serve export",
    "train and evaluate models": "data train evaluate calibrate reproduce demo import-reference "
    "export-model",
    "encode and store embedding sets": "encode store",
}


def test_help_lists_the_verbs_in_groups(capsys):
    assert main([]) == 2
    help_text = capsys.readouterr().out
    assert list(VERBS) == list(GROUPS)
    for title, names in VERBS.items():
        section = help_text.split(f"{title}:\n")[1].split("\n\n")[0].splitlines()
        assert [line.split()[0] for line in section] == names.split()
        assert all(len(line) < 110 for line in section)
    assert "exit codes:" in help_text
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize(
    "verb",
    [
        *" ".join(VERBS.values()).split(),
        *(f"store {name}" for name in "info verify compact tune copy load-shards".split()),
    ],
)
def test_every_verb_has_help_with_examples(verb, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([*verb.split(), "--help"])
    assert exit_.value.code == 0
    help_text = capsys.readouterr().out
    assert help_text.startswith(f"usage: diverset {verb} ")
    assert f"diverset {verb}" in help_text.split("examples:\n")[1]


def test_help_imports_neither_torch_nor_numpy():
    code = (
        "import sys; from diverset.cli import main; main([]); "
        "print([name for name in ('torch', 'numpy') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", ["info", "add", "store"])
def test_a_folder_named_like_a_command_can_be_indexed(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["index", name, "--library", "library"]) == 2
    assert f"there is no folder {name}" in capsys.readouterr().err


def test_errors_end_with_one_line_and_exit_code_2(tmp_path, capsys):
    assert main(["import-reference", "nowhere.pth.tar", "w.json", str(tmp_path / "m")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("diverset import-reference: cannot read nowhere.pth.tar")
    assert message.count("\n") == 1
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "give the folder of a run" in capsys.readouterr().err
    assert main(["train", str(tmp_path / "r.yaml"), "--out", str(tmp_path / "run")]) == 2
    assert "cannot read the recipe" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["evaluate", "store info"])
def test_an_unknown_option_is_reported_with_the_help_of_its_verb(verb, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([*verb.split(), "x", "--no-such-option"])
    message = f"unrecognized arguments: --no-such-option; see diverset {verb} --help"
    assert exit_.value.code == 2
    assert capsys.readouterr().err == f"diverset {verb}: {message}\n"


def test_an_interrupt_says_how_to_resume(monkeypatch, capsys):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("diverset.cli.reproduce.require", interrupt)
    assert main(["demo"]) == 130
    assert "Interrupted. Run the same command again to resume." in capsys.readouterr().err


def test_a_missing_extra_is_named(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "pip install 'diverset[train]'" in capsys.readouterr().err
