"""Time of `diverset search` from a cold start, against that of importing torch.

    python benchmarks/cold_start.py MODEL IMAGES --count 200 --rounds 7

Indexes images, then alternates between new processes that import nothing, numpy or torch, and one
that searches the library by text. Wall-clock time is the best round; the ratio is that of search to
torch, also for the processor time, which other programs disturb less. The last line is JSON.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import describe_machine

from diverset.data.walking import Walk
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library

TEXT = "a dog runs on the beach"


def seconds(command: list[str]) -> tuple[float, float]:
    """Wall-clock and processor time of a process."""
    before, started = os.times(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    wall, after = time.perf_counter() - started, os.times()
    if done.returncode:
        raise SystemExit(done.stderr)
    processor = after.children_user + after.children_system
    return wall, processor - before.children_user - before.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("images", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as base:
        photos = Path(base) / "photos"
        photos.mkdir()
        for file in list(Walk([args.images]))[: args.count]:
            (photos / os.path.basename(file.path)).symlink_to(os.path.abspath(file.path))
        with Library.open_or_create(Path(base) / "library", args.model) as library:
            index_folders(library, [photos])
        search = ["-m", "diverset", "search", TEXT, "--library", f"{base}/library"]
        contestants = {
            "python": ["-c", "pass"],
            "numpy": ["-c", "import numpy"],
            "torch": ["-c", "import torch"],
            "search": search,
        }
        times = [
            {name: seconds([sys.executable, *command]) for name, command in contestants.items()}
            for _ in range(args.rounds + 1)
        ][1:]  # the first round fills the file cache
    print(describe_machine())
    report = {}
    for index, clock in enumerate(("wall", "processor")):
        best = {name: min(turn[name][index] for turn in times) for name in contestants}
        print(f"{clock}:", ", ".join(f"{name} {value:.3f} s" for name, value in best.items()))
        report |= {f"{name}_{clock}": round(value, 3) for name, value in best.items()}
        report[f"ratio_{clock}"] = round(best["search"] / best["torch"], 3)
    print(json.dumps(report))


if __name__ == "__main__":
    main()
