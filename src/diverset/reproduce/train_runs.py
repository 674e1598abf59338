"""Train the missing runs in parallel, each in its own process with its own log.

An interrupted run resumes from its last checkpoint. A lock in the run folder keeps two commands
from training the same run at once; the second waits for the first. A failed run is reported and
does not stop the others.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from diverset.errors import DiversetError, LockedError
from diverset.recipe.run_folder import check_run
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.runs import Run
from diverset.reproduce.worker import EXIT_LOCKED, LOCK, work, write_job
from diverset.runtime.locks import is_locked

LOG = "train.log"
POLL_SECONDS = 0.2
LOCKED_SECONDS = 30.0
"""Pause after a run had to wait for another process, which trains it or writes its features."""


@dataclass
class _Queue:
    experiment: Experiment
    waiting: list[Run]
    total: int
    active: dict[Path, tuple[Run, subprocess.Popen[bytes], float]] = field(default_factory=dict)
    failed: dict[Path, str] = field(default_factory=dict)
    paused_until: float = 0.0

    def wait_for(self, run: Run) -> None:
        """Try a run again later that another process has locked."""
        self.waiting.append(run)
        self.paused_until = time.monotonic() + LOCKED_SECONDS
        self.report(run, "waits for another process")

    def report(self, run: Run, message: str) -> None:
        done = self.total - len(self.waiting) - len(self.active)
        print(f"[{done}/{self.total}] {run.name} ({run.folder.name}): {message}", flush=True)

    def finish(self, run: Run, since: float, failure: str | None = None) -> None:
        minutes = f"{(time.monotonic() - since) / 60:.1f} minutes"
        if failure:
            self.failed[run.folder] = failure
            self.report(run, f"failed after {minutes}: {failure}")
        else:
            report = json.loads(run.report(self.experiment.split).read_text(encoding="utf-8"))
            self.report(run, f"RSUM {report['rsum']:.1f}, {minutes}")


def train_runs(experiment: Experiment, runs: Sequence[Run]) -> dict[Path, str]:
    """Train and evaluate the missing runs; returns the folders of failed ones with reasons."""
    for run in runs:
        check_run(run.folder, run.recipe)
    missing = [run for run in runs if not run.report(experiment.split).exists()]
    queue = _Queue(experiment, missing, len(runs))
    print(f"{_count(len(runs), 'run')}, {len(runs) - len(missing)} already done", flush=True)
    with _terminating_children(queue):
        while queue.waiting or queue.active:
            _start(queue)
            _collect(queue)
            if queue.waiting or queue.active:
                time.sleep(POLL_SECONDS)
    return queue.failed


@contextmanager
def _terminating_children(queue: _Queue) -> Iterator[None]:
    """Stop the runs when this command is stopped by Ctrl-C or a signal; they can be resumed."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        for _, process, _ in queue.active.values():
            process.terminate()
        for _, process, _ in queue.active.values():
            process.wait()


def _start(queue: _Queue) -> None:
    experiment = queue.experiment
    for run in list(queue.waiting):
        if len(queue.active) >= max(1, experiment.jobs) or time.monotonic() < queue.paused_until:
            return
        if run.report(experiment.split).exists():
            queue.waiting.remove(run)
            queue.report(run, "done by another command")
            continue
        run.folder.mkdir(parents=True, exist_ok=True)
        if is_locked(run.folder / LOCK):
            continue
        write_job(run)
        queue.report(run, "resumed" if run.is_started and not run.is_trained else "started")
        queue.waiting.remove(run)
        if experiment.jobs:
            queue.active[run.folder] = (run, _process(experiment, run), time.monotonic())
        else:
            _run_here(queue, run)


def _process(experiment: Experiment, run: Run) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "diverset.reproduce.worker"]
    command += [str(run.folder), experiment.split, str(experiment.cache), experiment.device]
    # Several one-thread processes are faster than one process whose threads wait for each other.
    threads = max(1, (os.cpu_count() or 1) // experiment.jobs)
    environment = {"OMP_NUM_THREADS": str(threads)} | os.environ
    with open(run.folder / LOG, "ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)


def _run_here(queue: _Queue, run: Run) -> None:
    experiment, since = queue.experiment, time.monotonic()
    try:
        work(run.folder, experiment.split, experiment.cache, experiment.device)
        queue.finish(run, since)
    except LockedError:
        queue.wait_for(run)
    except DiversetError as error:
        queue.finish(run, since, f"{type(error).__name__}: {error}")


def _collect(queue: _Queue) -> None:
    for folder, (run, process, since) in list(queue.active.items()):
        if process.poll() is None:
            continue
        del queue.active[folder]
        code = process.returncode
        if code == EXIT_LOCKED:
            queue.wait_for(run)
        elif code < 0:
            queue.finish(run, since, f"killed by signal {-code}; run the same command to resume")
        else:
            queue.finish(run, since, _last_line(folder / LOG) if code else None)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else f"no message; see {log}"


def plan(experiment: Experiment, runs: Sequence[Run]) -> str:
    """The state of every run, and an estimate of the remaining time from the finished ones."""
    lines, seconds, missing = [], [], 0
    for run in runs:
        state = "missing"
        if run.is_trained:
            state = "done" if run.report(experiment.split).exists() else "not evaluated"
            seconds.append(run.seconds)
        elif run.is_started:
            state = "interrupted"
        missing += not run.is_trained
        lines.append(f"{run.folder.name}  {state:13}  {run.name}")
    summary = f"{_count(len(runs), 'run')}, {missing} to train"
    if seconds and missing:
        minutes = sum(seconds) / len(seconds) / 60
        total = minutes * missing / max(1, experiment.jobs)
        summary += f"; about {total:.0f} minutes, at {minutes:.1f} minutes per run so far"
    return "\n".join([*lines, summary])


def _count(number: int, noun: str) -> str:
    """
    >>> _count(1, "run"), _count(2, "run")
    ('1 run', '2 runs')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"
