"""Runs in processes of their own: side by side, killed and picked up, failing, locked."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from diverset.analysis import runner
from diverset.analysis.command import STUDIES, reproduce
from diverset.analysis.rows import Row
from diverset.analysis.runner import plan, run_all
from diverset.analysis.similarity import SMOOTH
from diverset.cli import main
from diverset.errors import CheckpointError, OptionError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")


def command(bench, place, *more):
    return [
        *(sys.executable, "-m", "diverset.cli", "reproduce", "elements"),
        *("--recipe", str(bench.file), "--runs", str(bench.runs), "--out", str(bench.out)),
        *("--cache", str(bench.store), "--data.root", str(place / "scenes"), "--device", "cpu"),
        *more,
    ]


@pytest.mark.slow
def test_a_killed_command_is_picked_up(bench, place, tmp_path):
    """Kill the command and its worker in the middle of a run; the next call goes on from there."""
    bench = replace(bench, runs=tmp_path / "runs")
    asked = command(bench, place, "--seeds", "1", "--jobs", "1", "--train.epochs", "12")
    asked += ["--train.checkpoint_minutes", "0"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(asked, env=environment, start_new_session=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(bench.runs.glob("*/checkpoints/step-*3-*.pt")):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    folders = [one for one in bench.runs.iterdir() if (one / "checkpoints").exists()]
    assert len(folders) == 1 and not (folders[0] / "result.json").exists()
    before = (folders[0] / "environment.json").read_text()
    again = subprocess.run(asked, env=environment, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "going on" in again.stdout and "1 runs, 0 of them done" in again.stdout
    assert (folders[0] / "environment.json").read_text() == before  # the run is the same one
    history = json.loads((folders[0] / "result.json").read_text())["history"]
    assert [one["epoch"] for one in history] == list(range(1, 13))
    assert (bench.out / "elements.md").exists()


def test_a_failing_run_is_told_of_and_does_not_stop_the_others(bench, tmp_path, capsys):
    bench = replace(bench, runs=tmp_path, seeds=1)
    wild = bench.run_of(Row("wild", {"optim.lr": 1e30, "train.epochs": 3}), 0)
    plain = bench.run_of(SMOOTH, 0)
    failed = run_all(bench, [wild, plain])
    assert list(failed) == [wild.folder] and "NaN" in failed[wild.folder]
    assert plain.trained and plain.report("val").exists()
    assert "failed" in capsys.readouterr().out


@pytest.mark.slow
def test_a_failing_process_gives_its_reason(bench, tmp_path):
    bench = replace(bench, runs=tmp_path, seeds=1, jobs=1)
    wild = bench.run_of(Row("wild", {"optim.lr": 1e30, "train.epochs": 3}), 0)
    failed = run_all(bench, [wild])
    assert failed[wild.folder].startswith("InputError: ") and "nan" in failed[wild.folder]


def test_a_folder_that_is_being_trained_is_waited_for(bench, tmp_path, monkeypatch):
    bench = replace(bench, runs=tmp_path, seeds=1)
    run = bench.run_of(SMOOTH, 0)
    run.folder.mkdir(parents=True)
    holder = open(run.folder / runner.LOCK, "w")
    fcntl.flock(holder, fcntl.LOCK_EX)
    pauses = []

    def pause(seconds):
        pauses.append(run.trained)
        if len(pauses) == 3:
            holder.close()

    monkeypatch.setattr(runner.time, "sleep", pause)
    assert run_all(bench, [run]) == {}
    assert pauses == [False, False, False] and run.trained


def test_a_folder_with_other_settings_is_refused(bench, tmp_path):
    bench = replace(bench, runs=tmp_path, seeds=1)
    run = bench.run_of(SMOOTH, 0)
    run_all(bench, [run])
    other = bench.run_of(Row("other", {"optim.lr": 0.5}), 0)
    with pytest.raises(CheckpointError, match="other settings"):
        run_all(bench, [replace(other, folder=run.folder)])


def test_a_dry_run_lists_what_is_needed(bench, tmp_path, capsys):
    bench = replace(bench, runs=tmp_path)
    assert reproduce("similarity", bench, dry_run=True) == 0
    said = capsys.readouterr().out
    assert said.count("missing") == 8 and "8 runs, 8 of them to train" in said
    run = bench.run_of(SMOOTH, 0)
    run_all(bench, [run])
    said = plan(bench, [run, bench.run_of(SMOOTH, 1)])
    assert "done" in said and "2 runs, 1 of them to train; at 0.0 minutes each" in said


def test_help_names_every_study(capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    for name in STUDIES:
        assert name in said.replace("- ", "-"), name


def test_mistakes_are_refused(bench):
    with pytest.raises(OptionError, match="study is 'similarty'; choose one of: comparison"):
        reproduce("similarty", bench)
    with pytest.raises(OptionError, match="seeds is 0"):
        reproduce("similarity", replace(bench, seeds=0))
