"""Hostile files: none may end in a raw traceback, hang, or take more than 600 MB.

    python benchmarks/hostile_input.py --images 1500 --others 300

Writes files from seeds (hostile_files.py) and gives each to the functions that read such files: an
image is checked as an upload, decoded, described and made a thumbnail; a model is loaded; an array
and a table are read. All run in a process of its own, whose memory is measured for each file. An
error is right if it is one of diverset's own. The last line is JSON; the exit code is 1 if anything
was wrong.
"""

import argparse
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

from hostile_files import hostile_arrays, hostile_configs, hostile_images, hostile_tables
from timing import describe_machine

SECONDS, MEGABYTES = 60, 600
CONFIG = "config.json"


def write_files(base: Path, images: int, others: int, seed: int, large: bool) -> list[list[str]]:
    """Write all files; returns (kind, path) of each."""
    tasks = []
    for number, (name, data) in enumerate(hostile_images(images, seed, large)):
        tasks.append(["image", write(base / "images" / str(number) / name, data)])
    for number, (name, data) in enumerate(hostile_arrays(others // 4, seed)):
        tasks.append(["array", write(base / "arrays" / str(number) / name, data)])
    for number, (name, data) in enumerate(hostile_tables(others // 4, seed)):
        tasks.append(["table", write(base / "tables" / str(number) / name, data)])
    return tasks + write_models(base, others - 2 * (others // 4), seed)


def write(path: Path, data: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def write_models(base: Path, count: int, seed: int) -> list[list[str]]:
    """A small model of which the config, the weights or the vocabulary is hostile."""
    import numpy as np
    import torch
    from hostile_files import damaged

    from diverset import Model, ModelConfig, SetConfig, Vocabulary

    torch.manual_seed(seed)
    words = Vocabulary.build(["a dog runs", "a cat sleeps"], min_count=1)
    small = SetConfig(inner_width=8)
    model = Model(ModelConfig(dim=8, image_set=small, text_set=small), words)
    model.save_pretrained(base / "model")
    rng = np.random.default_rng(seed)
    config = json.loads((base / "model" / CONFIG).read_text())
    configs = hostile_configs(config, count - count // 3, seed)
    tasks = []
    for number in range(count):
        folder = base / "models" / str(number)
        shutil.copytree(base / "model", folder)
        content = next(configs, None)
        if content is None:
            file = folder / ("model.safetensors" if number % 2 else "vocabulary.json")
            file.write_bytes(damaged(file.read_bytes(), rng))
        else:
            (folder / CONFIG).write_bytes(content)
        tasks.append(["model", str(folder)])
    return tasks


def read(kind: str, path: str) -> None:
    """Read a file in every way that diverset reads such files."""
    from diverset import Model
    from diverset.data.preprocess import Preprocess
    from diverset.data.table import read_rows
    from diverset.errors import DiversetError
    from diverset.photos.library.reading import image_metadata
    from diverset.photos.search.thumbnails import thumbnail
    from diverset.photos.serve.limits import Limits
    from diverset.photos.serve.uploads import check_upload
    from diverset.runtime.files import load_array

    if kind == "image":
        preprocess = Preprocess(288, crop="squash")
        image = preprocess.open(path)  # raises where the others would
        preprocess.pixels(image)
        del image
        data = Path(path).read_bytes()
        thumbnail(path, 256, data)
        image_metadata(path, data)
        try:
            check_upload(data, Limits())
        except DiversetError:
            pass
    elif kind == "array":
        load_array(path)
        load_array(path, "r")
    elif kind == "table":
        for _ in read_rows(Path(path), ["caption"]):
            pass
    else:
        model = Model.from_pretrained(path)
        model.encode_texts(["a dog runs"])


def peak(reset: bool = False) -> float:
    """Largest resident memory of this process in MB since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit("needs Linux")


def work() -> None:
    """Read the files named on stdin; print one line of JSON for each."""
    from diverset.errors import DiversetError
    from diverset.runtime.memory import tune_glibc_malloc

    tune_glibc_malloc()
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        kind, path = json.loads(line)
        base, started = peak(reset=True), time.monotonic()
        try:
            read(kind, path)
            outcome = "read"
        except DiversetError as error:
            outcome = f"rejected: {error}"[:200]
        except BaseException as error:
            outcome = f"RAW {type(error).__name__}: {error}"[:300]
        result = [outcome, peak() - base, time.monotonic() - started]
        print(json.dumps(result), flush=True)


class Worker:
    """A process that reads files, one after the other."""

    def __init__(self) -> None:
        command = [sys.executable, __file__, "--work"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.collector = threading.Thread(target=self._collect, daemon=True)
        self.collector.start()

    def _collect(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")  # the process has ended

    def read(self, task: list[str]) -> list:
        """Outcome, MB and seconds."""
        self.process.stdin.write(json.dumps(task) + "\n")
        self.process.stdin.flush()
        try:
            line = self.lines.get(timeout=SECONDS)
        except queue.Empty:
            return ["HANG", 0.0, SECONDS]
        return json.loads(line) if line else ["RAW the process was killed", 0.0, 0.0]

    def stop(self) -> None:
        self.process.kill()
        with self.process:  # closes its pipes
            self.collector.join()


def run(images: int, others: int, seed: int, large: bool = True) -> dict[str, object]:
    """Read all files; returns the figures of the last line."""
    counts = {"read": 0, "rejected": 0, "raw": 0, "hang": 0}
    most, slowest = 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        tasks = write_files(Path(folder), images, others, seed, large)
        worker = Worker()
        for number, task in enumerate(tasks):
            outcome, megabytes, seconds = worker.read(task)
            word = outcome.split()[0].rstrip(":").lower()
            counts[word] += 1
            if number:  # the first file loads the libraries
                most = max(most, megabytes)
                slowest = max(slowest, seconds)
            if word in ("raw", "hang"):
                print(f"{Path(task[1]).relative_to(folder)}: {outcome}")
                worker.stop()
                worker = Worker()
            elif number and megabytes > MEGABYTES:
                print(f"{Path(task[1]).relative_to(folder)}: {megabytes:.0f} MB, {outcome}")
        worker.stop()
    return {"files": len(tasks), **counts, "peak_mb": round(most), "slowest_s": round(slowest, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--images", type=int, default=1500)
    parser.add_argument("--others", type=int, default=300, help="models, arrays and tables")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work()
        return
    print(describe_machine())
    figures = run(args.images, args.others, args.seed)
    print(json.dumps(figures))
    sys.exit(figures["raw"] or figures["hang"] or figures["peak_mb"] > MEGABYTES)


if __name__ == "__main__":
    main()
