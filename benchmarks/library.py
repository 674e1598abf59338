"""The photo library: recall, speed of searching and re-indexing, rate of indexing.

    python benchmarks/library.py recall --library LIBRARY --data dataset_flickr8k.json --split val
    python benchmarks/library.py speed RUN_OR_MODEL --items 10000
    python benchmarks/library.py indexing RUN_OR_MODEL IMAGES --count 320

`recall` searches an indexed folder by all captions of a split, to compare with `diverset evaluate`.
`speed` creates a library of placeholder files with clustered sets, and times a second run of
`diverset index`, one `diverset search` from a cold start, and 100 searches by the server.
`indexing` alternates between indexing images, reading and storing included, and two forward passes
of the backbone over prepared pixels, in the precision that indexing uses, with folded batch norms
and channels last: `bare` by torch's ordinary convolutions, `fused` by the kernels of indexing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import torch

from diverset.data.walking import Walk
from diverset.model.build import configured_backbone
from diverset.photos.library.catalog import FileRecord
from diverset.photos.library.indexing import index_folders
from diverset.photos.library.library import Library
from diverset.runtime.memory import tune_glibc_malloc

TEXTS = ["a dog runs on the beach", "two children play football", "snow", "a man on a bicycle"]


def recall(args: argparse.Namespace) -> dict[str, float]:
    content = json.loads(Path(args.data).read_text(encoding="utf-8"))
    images = [image for image in content["images"] if image["split"] == args.split]
    pairs = [
        (image["filename"], caption["raw"].strip())
        for image in images
        for caption in image["sentences"]
    ]
    ranks = []
    with Library.open(args.library) as library:
        for start in range(0, len(pairs), 100):
            batch = pairs[start : start + 100]
            sets = library.model.encode_texts([text for _, text in batch]).numpy()
            for (name, _), hits in zip(batch, library.images.search(sets, k=10), strict=True):
                names = [os.path.basename(hit.id) for hit in hits]
                ranks.append(names.index(name) if name in names else 10)
    return {f"R@{k}": 100 * float(np.mean(np.array(ranks) < k)) for k in (1, 5, 10)}


def clustered(count: int, slots: int, dim: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    items = rng.normal(size=(200, dim))[rng.integers(200, size=count)]
    items = items + 0.7 * rng.normal(size=(count, dim))
    sets = items[:, None] + 0.4 * rng.normal(size=(count, slots, dim))
    return (sets / np.linalg.norm(sets, axis=2, keepdims=True)).astype(np.float32)


def speed(args: argparse.Namespace) -> dict[str, float]:
    import uvicorn

    from diverset.photos.serve.app import create_app

    with tempfile.TemporaryDirectory() as base:
        folder, photos = Path(base) / "library", Path(base) / "photos"
        for number in range(args.items):
            path = photos / str(number // 500) / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"%d" % number)
        with Library.open_or_create(folder, args.model) as library:
            files = list(Walk([photos]))
            sets = clustered(len(files), library.info["image_slots"], library.info["dim"])
            metadata = [{"path": file.path, "width": 640} for file in files]
            library.images.add([file.path for file in files], sets, metadata)
            library.catalog.put_files(
                FileRecord(file.path, file.size, file.mtime_ns, "x") for file in files
            )
            library.catalog.add_root(photos)
        command = [sys.executable, "-m", "diverset"]
        option = ["--library", str(folder)]
        seconds = {
            "unchanged": _timed([*command, "index", str(photos), *option]),
            "cold_search": min(
                _timed([*command, "search", TEXTS[0], *option], 1) for _ in range(3)
            ),
        }
        with Library.open(folder) as library:
            app = create_app(library)
            settings = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning")
            server = uvicorn.Server(settings)
            thread = threading.Thread(target=server.run)
            thread.start()
            app.state.diverset.ready.wait(300)
            while not server.started:
                time.sleep(0.01)
            port = server.servers[0].sockets[0].getsockname()[1]
            times = [_search(port, f"{TEXTS[number % 4]} {number}") for number in range(100)]
            server.should_exit = True
            thread.join()
        seconds["server_median"] = float(np.median(times))
        seconds["server_p90"] = float(np.quantile(times, 0.9))
    return seconds


def _timed(command: list[str], status: int = 0) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, status):
        raise SystemExit(done.stderr)
    return time.perf_counter() - started


def _search(port: int, text: str) -> float:
    body = json.dumps({"text": text, "k": 40}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/search", body, {"Content-Type": "application/json"}
    )
    started = time.perf_counter()
    with urllib.request.urlopen(request) as response:
        response.read()
    return time.perf_counter() - started


def indexing(args: argparse.Namespace) -> dict[str, float]:
    tune_glibc_malloc()  # as `diverset index` does; doubles the rate of the bare pass, too
    files = [os.path.abspath(file.path) for file in Walk([Path(args.images)])][: args.count]
    rates: dict[str, list[float]] = {"bare": [], "fused": [], "indexing": []}
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory() as base:
            photos = Path(base) / "photos"
            photos.mkdir()
            for path in files:
                (photos / os.path.basename(path)).symlink_to(path)
            with Library.open_or_create(Path(base) / "library", args.model) as library:
                encoder = library.encoder
                network = configured_backbone(encoder.model.config.image).for_inference()
                size, low = encoder.preprocess.size, encoder.precision == "bfloat16"
                pixels = torch.randint(0, 255, (32, 3, size, size), dtype=torch.uint8)
                encoder.encode(list(pixels))
                batch = encoder.preprocess.batch(list(pixels))
                rates["fused"].append(_forward_rate(network, batch, len(files), low))
                # Trainable weights use torch's ordinary convolutions.
                network.requires_grad_(True)
                rates["bare"].append(_forward_rate(network, batch, len(files), low))
                result = index_folders(library, [photos])
                if result.encoded != len(files):
                    raise SystemExit(f"not all were indexed: {result}; {result.skipped}")
                rates["indexing"].append(result.encoded / result.seconds)
    report = {name: float(np.median(values)) for name, values in rates.items()}
    for name, key in (("bare", "ratio"), ("fused", "ratio_to_fused")):
        ratios = np.array(rates["indexing"]) / np.array(rates[name])
        report |= {key: float(np.median(ratios)), f"{key}_worst": float(ratios.min())}
    return report


def _forward_rate(network: torch.nn.Module, batch: torch.Tensor, count: int, low: bool) -> float:
    turns = max(1, count // len(batch))
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, low):
        network(batch)
        started = time.perf_counter()
        for _ in range(turns):
            network(batch)
    return turns * len(batch) / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("recall")
    command.add_argument("--library", required=True)
    command.add_argument("--data", required=True)
    command.add_argument("--split", default="val")
    command.set_defaults(run=recall)
    command = commands.add_parser("speed")
    command.add_argument("model")
    command.add_argument("--items", type=int, default=10_000)
    command.set_defaults(run=speed)
    command = commands.add_parser("indexing")
    command.add_argument("model")
    command.add_argument("images")
    command.add_argument("--count", type=int, default=320)
    command.add_argument("--rounds", type=int, default=3)
    command.set_defaults(run=indexing)
    args = parser.parse_args()
    print(json.dumps(args.run(args)))


if __name__ == "__main__":
    main()
