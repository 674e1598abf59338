"""Runs in their own processes: killed and resumed, failing, locked."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from diverset.errors import CheckpointError, LockedError
from diverset.reproduce import train_runs as train_runs_module
from diverset.reproduce.studies.similarity import SMOOTH
from diverset.reproduce.train_runs import plan, train_runs
from diverset.reproduce.variants import Variant
from diverset.reproduce.worker import LOCK, work
from diverset.runtime.locks import file_lock

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning_fabric")
DIVERGING = Variant("diverging", {"optim.lr": 1e30, "train.epochs": 3})
KILL_AT_THIRD_CHECKPOINT = """
import os, signal
replace, names = os.replace, []

def replace_and_count(source, target, **options):
    replace(source, target, **options)
    if os.path.basename(target).startswith("step-"):
        names.append(target)
        if len(names) == 3:
            os.killpg(os.getpgid(0), signal.SIGKILL)

os.replace = replace_and_count
"""


@pytest.mark.slow
def test_a_killed_command_resumes_its_run(experiment, workspace, tmp_path):
    """Python imports sitecustomize at start; it kills the command and its worker in mid-run."""
    runs = tmp_path / "runs"
    command = [
        *(sys.executable, "-m", "diverset", "reproduce", "elements"),
        *("--recipe", str(experiment.recipe_file), "--out", str(experiment.out)),
        *("--runs", str(runs), "--cache", str(tmp_path / "cache"), "--device", "cpu"),
        *("--seeds", "1", "--jobs", "1", "--data.root", str(workspace / "scenes")),
        *("--train.epochs", "6", "--train.checkpoint_minutes", "0"),
    ]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    (tmp_path / "sitecustomize.py").write_text(KILL_AT_THIRD_CHECKPOINT)
    paths = [str(tmp_path), *filter(None, [environment.get("PYTHONPATH")])]
    killed = subprocess.run(
        command,
        env=environment | {"PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )
    assert killed.returncode == -signal.SIGKILL
    (folder,) = (path.parent for path in runs.glob("*/checkpoints"))
    assert not (folder / "result.json").exists()
    before = (folder / "environment.json").read_text()
    resumed = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert "resumed" in resumed.stdout and "1 run, 0 already done" in resumed.stdout
    assert (folder / "environment.json").read_text() == before  # the same run
    history = json.loads((folder / "result.json").read_text())["history"]
    assert [epoch["epoch"] for epoch in history] == list(range(1, 7))
    assert (experiment.out / "elements.md").exists()


def test_a_failed_run_is_reported_and_does_not_stop_the_others(experiment, tmp_path, capsys):
    experiment = replace(experiment, runs=tmp_path, seeds=1)
    diverging, plain = (experiment.run_for(variant, 0) for variant in (DIVERGING, SMOOTH))
    failed = train_runs(experiment, [diverging, plain])
    assert list(failed) == [diverging.folder] and "not finite" in failed[diverging.folder]
    assert plain.is_trained and plain.report("val").exists()
    assert "failed" in capsys.readouterr().out


@pytest.mark.slow
def test_a_failed_process_gives_its_reason(experiment, tmp_path):
    experiment = replace(experiment, runs=tmp_path, seeds=1, jobs=1)
    diverging = experiment.run_for(DIVERGING, 0)
    failed = train_runs(experiment, [diverging])
    reason = failed[diverging.folder]
    assert reason.startswith("InputError: ") and "diverged" in reason


def test_a_run_that_another_process_trains_is_waited_for(experiment, tmp_path):
    experiment = replace(experiment, runs=tmp_path, seeds=1)
    run = experiment.run_for(SMOOTH, 0)
    run.folder.mkdir(parents=True)
    locked, released = threading.Event(), []

    def hold_lock():
        with file_lock(run.folder / LOCK, "locked"):
            locked.set()
            time.sleep(0.5)
            released.append(time.time())

    other = threading.Thread(target=hold_lock)
    other.start()
    locked.wait()
    assert train_runs(experiment, [run]) == {}
    other.join()
    assert (run.folder / "result.json").stat().st_mtime > released[0]


def test_a_run_whose_features_another_process_writes_is_tried_again_after_a_pause(
    experiment, tmp_path, monkeypatch, capsys
):
    experiment, attempts = replace(experiment, runs=tmp_path, seeds=1), []

    def work_when_unlocked(*args):
        attempts.append(time.monotonic())
        if len(attempts) < 3:
            raise LockedError("another process writes these features")
        work(*args)

    monkeypatch.setattr(train_runs_module, "work", work_when_unlocked)
    monkeypatch.setattr(train_runs_module, "LOCKED_SECONDS", 0.3)
    run = experiment.run_for(SMOOTH, 0)
    assert train_runs(experiment, [run]) == {}
    assert run.is_trained and len(attempts) == 3
    assert attempts[1] - attempts[0] >= 0.3 and attempts[2] - attempts[1] >= 0.3
    assert capsys.readouterr().out.count("waits for another process") == 2


def test_a_folder_with_other_settings_is_rejected(experiment, tmp_path):
    experiment = replace(experiment, runs=tmp_path, seeds=1)
    run = experiment.run_for(SMOOTH, 0)
    train_runs(experiment, [run])
    other = experiment.run_for(Variant("other", {"optim.lr": 0.5}), 0)
    with pytest.raises(CheckpointError, match="other settings"):
        train_runs(experiment, [replace(other, folder=run.folder)])


def test_the_plan_estimates_the_remaining_time(experiment, tmp_path):
    experiment = replace(experiment, runs=tmp_path)
    run = experiment.run_for(SMOOTH, 0)
    assert plan(experiment, [run]).endswith("\n1 run, 1 to train")
    train_runs(experiment, [run])
    text = plan(experiment, [run, experiment.run_for(SMOOTH, 1)])
    assert "done" in text and "missing" in text
    assert "2 runs, 1 to train; about 0 minutes, at 0.0 minutes per run" in text
