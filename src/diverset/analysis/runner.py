"""Training what is missing: runs side by side, each in a process and with a log of its own.

A run that was stopped goes on from its last checkpoint. A lock, held by whoever trains a folder
and let go by the system when that process ends, keeps two commands from training one run at the
same time; the second waits for the first. A run that fails is told of and does not stop the
others. This module does not know what the runs are for.
"""

from __future__ import annotations

import fcntl
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

from diverset.analysis.bench import Bench, Run
from diverset.analysis.worker import ask, work
from diverset.errors import DiversetError
from diverset.training.run import RECIPE, RESULT, start_run

LOG, LOCK = "train.log", "lock"
PAUSE = 0.2  # seconds between looks at the processes


@dataclass
class _Queue:
    bench: Bench
    waiting: list[Run]
    total: int
    active: dict[Path, tuple[Run, subprocess.Popen[bytes], float]] = field(default_factory=dict)
    failed: dict[Path, str] = field(default_factory=dict)

    def say(self, run: Run, what: str) -> None:
        done = self.total - len(self.waiting) - len(self.active)
        print(f"[{done} of {self.total} done] {run.name} ({run.folder.name}): {what}", flush=True)


def run_all(bench: Bench, runs: Sequence[Run]) -> dict[Path, str]:
    """Train and evaluate what is missing; returns the reasons of those that failed."""
    for run in runs:
        if (run.folder / RECIPE).exists():
            start_run(run.folder, run.recipe)  # refuses a folder that holds other settings
    missing = [run for run in runs if not run.report(bench.split).exists()]
    queue = _Queue(bench, missing, len(runs))
    print(f"{len(runs)} runs, {len(runs) - len(missing)} of them done", flush=True)
    with _ending_children(queue):
        while queue.waiting or queue.active:
            _start(queue)
            _collect(queue)
            if queue.waiting or queue.active:
                time.sleep(PAUSE)
    return queue.failed


@contextmanager
def _ending_children(queue: _Queue) -> Iterator[None]:
    """Whoever stops this command, by Ctrl-C or a signal, stops its runs; they can go on later."""
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
    bench = queue.bench
    for run in list(queue.waiting):
        if len(queue.active) >= max(1, bench.jobs):
            return
        if run.report(bench.split).exists():  # another command was faster
            queue.waiting.remove(run)
            queue.say(run, "done elsewhere")
            continue
        run.folder.mkdir(parents=True, exist_ok=True)
        with open(run.folder / LOCK, "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            ask(run)
            queue.say(run, "going on" if run.started and not run.trained else "starting")
            queue.waiting.remove(run)
            if bench.jobs:
                # The child inherits the lock and keeps it, even if this process is killed.
                started = _process(bench, run, lock.fileno())
                queue.active[run.folder] = (run, started, time.monotonic())
            else:
                _here(queue, run)


def _process(bench: Bench, run: Run, lock: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "diverset.analysis.worker"]
    command += [str(run.folder), bench.split, str(bench.store), bench.device]
    # One-thread processes side by side beat one with several threads that wait for each other.
    threads = max(1, (os.cpu_count() or 1) // bench.jobs)
    environment = {"OMP_NUM_THREADS": str(threads)} | os.environ
    with open(run.folder / LOG, "ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env=environment, pass_fds=[lock]
        )


def _here(queue: _Queue, run: Run) -> None:
    bench = queue.bench
    try:
        work(run.folder, bench.split, bench.store, bench.device)
        queue.say(run, _found(run, bench.split))
    except DiversetError as error:
        queue.failed[run.folder] = f"{type(error).__name__}: {error}"
        queue.say(run, f"failed: {error}")


def _collect(queue: _Queue) -> None:
    for folder, (run, process, since) in list(queue.active.items()):
        if process.poll() is None:
            continue
        del queue.active[folder]
        minutes = f"{(time.monotonic() - since) / 60:.1f} minutes"
        if process.returncode == 0:
            queue.say(run, f"{_found(run, queue.bench.split)}, {minutes}")
            continue
        reason = _last_line(folder / LOG)
        if process.returncode < 0:
            reason = f"killed by signal {-process.returncode}; the same command goes on with it"
        queue.failed[folder] = reason
        queue.say(run, f"failed after {minutes}: {reason}")


def _found(run: Run, split: str) -> str:
    return f"RSUM {json.loads(run.report(split).read_text())['rsum']:.1f}"


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else f"no reason was given; see {log}"


def plan(bench: Bench, runs: Sequence[Run]) -> str:
    """What would be trained, and how long that takes if it goes as it went so far."""
    lines, seconds, left = [], [], 0
    for run in runs:
        state = "missing"
        if run.trained:
            state = "done" if run.report(bench.split).exists() else "to be evaluated"
            seconds.append(float(json.loads((run.folder / RESULT).read_text())["seconds"]))
        elif run.started:
            state = "stopped"
        left += not run.trained
        lines.append(f"{run.folder.name}  {state:15}  {run.name}")
    summary = f"{len(runs)} runs, {left} of them to train"
    if seconds and left:
        minutes = sum(seconds) / len(seconds) / 60
        total = minutes * left / max(1, bench.jobs)
        summary += f"; at {minutes:.1f} minutes each, as those that are done: {total:.0f} minutes"
    return "\n".join([*lines, summary])
