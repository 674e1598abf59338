"""Does the tool keep its promises: recall, an unchanged folder, the server, a cold start?

    python benchmarks/library.py recall --library LIBRARY --data dataset_flickr8k.json --split val
    python benchmarks/library.py speed RUN_OR_MODEL --items 10000
    python benchmarks/library.py indexing RUN_OR_MODEL PICTURES --count 320

`recall` asks an indexed folder all captions of a split, to be held against `diverset evaluate`.
`speed` makes a library of files that are not pictures, with clustered sets, and times a second run
of `diverset index`, one search by `diverset search` from a cold start, and 100 by the server.
`indexing` takes turns between indexing some pictures, reading and storing included, and two forward
passes of the whole network over pixels that are ready, in the precision that indexing uses, with
batch norms folded and channels innermost: `bare` by torch's ordinary convolutions, `fused` by the
kernels that indexing uses.
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

from diverset.building import load_pictures
from diverset.library.catalog import File
from diverset.library.indexing import index_folders
from diverset.library.library import Library
from diverset.library.walking import Walk
from diverset.search.searcher import Searcher
from diverset.training.memory import keep_freed_memory

WORDS = ["a dog runs on the beach", "two children play football", "snow", "a man on a bicycle"]


def recall(given: argparse.Namespace) -> dict[str, float]:
    content = json.loads(Path(given.data).read_text(encoding="utf-8"))
    chosen = [one for one in content["images"] if one["split"] == given.split]
    pairs = [(one["filename"], said["raw"].strip()) for one in chosen for said in one["sentences"]]
    with Library.open(given.library) as library:
        searcher, ranks = Searcher(library), []
        for start in range(0, len(pairs), 100):
            some = pairs[start : start + 100]
            sets = searcher.of_words([text for _, text in some])
            for (name, _), hits in zip(some, library.pictures.search(sets, k=10), strict=True):
                found = [os.path.basename(hit.id) for hit in hits]
                ranks.append(found.index(name) if name in found else 10)
    return {f"R@{k}": 100 * float(np.mean(np.array(ranks) < k)) for k in (1, 5, 10)}


def clustered(count: int, slots: int, dim: int) -> np.ndarray:
    chance = np.random.default_rng(0)
    items = chance.normal(size=(200, dim))[chance.integers(200, size=count)]
    items = items + 0.7 * chance.normal(size=(count, dim))
    sets = items[:, None] + 0.4 * chance.normal(size=(count, slots, dim))
    return (sets / np.linalg.norm(sets, axis=2, keepdims=True)).astype(np.float32)


def speed(given: argparse.Namespace) -> dict[str, float]:
    import uvicorn

    from diverset.serve.app import create_app

    with tempfile.TemporaryDirectory() as base:
        folder, photos = Path(base) / "library", Path(base) / "photos"
        for number in range(given.items):
            path = photos / str(number // 500) / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"%d" % number)
        with Library.prepare(folder, given.model) as library:
            found = list(Walk([photos]))
            sets = clustered(len(found), library.about["image_slots"], library.about["dim"])
            about = [{"path": one.path, "width": 640} for one in found]
            library.pictures.add([one.path for one in found], sets, about)
            library.catalog.put(File(one.path, one.size, one.mtime_ns, "x") for one in found)
            library.catalog.add_root(photos)
        command = [sys.executable, "-m", "diverset.cli"]
        where = ["--library", str(folder)]
        took = {
            "unchanged": _timed([*command, "index", str(photos), *where]),
            "cold_search": min(_timed([*command, "search", WORDS[0], *where], 1) for _ in range(3)),
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
            times = [_ask(port, f"{WORDS[turn % 4]} {turn}") for turn in range(100)]
            server.should_exit = True
            thread.join()
        took["server_median"] = float(np.median(times))
        took["server_p90"] = float(np.quantile(times, 0.9))
    return took


def _timed(command: list[str], status: int = 0) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, status):
        raise SystemExit(done.stderr)
    return time.perf_counter() - started


def _ask(port: int, words: str) -> float:
    body = json.dumps({"words": words, "k": 40}).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/search", body, {"Content-Type": "application/json"}
    )
    started = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        answer.read()
    return time.perf_counter() - started


def indexing(given: argparse.Namespace) -> dict[str, float]:
    keep_freed_memory()  # as `diverset index` does; it doubles the rate of the bare forward too
    files = [os.path.abspath(one.path) for one in Walk([Path(given.pictures)])][: given.count]
    rates: dict[str, list[float]] = {"bare": [], "fused": [], "indexing": []}
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as base:
            photos = Path(base) / "photos"
            photos.mkdir()
            for path in files:
                (photos / os.path.basename(path)).symlink_to(path)
            with Library.prepare(Path(base) / "library", given.model) as library:
                encoder = library.encoder
                network = load_pictures(encoder.model.architecture.image).for_inference()
                size, low = encoder.preprocess.size, encoder.precision == "bfloat16"
                pixels = torch.randint(0, 255, (32, 3, size, size), dtype=torch.uint8)
                encoder.encode(list(pixels))
                batch = encoder.preprocess.batch(list(pixels))
                rates["fused"].append(_forward_rate(network, batch, len(files), low))
                # Weights that could be trained are kept to torch's ordinary convolutions.
                network.requires_grad_(True)
                rates["bare"].append(_forward_rate(network, batch, len(files), low))
                outcome = index_folders(library, [photos])
                if outcome.encoded != len(files):
                    raise SystemExit(f"not all were indexed: {outcome}; {outcome.skipped}")
                rates["indexing"].append(outcome.encoded / outcome.seconds)
    found = {name: float(np.median(some)) for name, some in rates.items()}
    for name, key in (("bare", "ratio"), ("fused", "ratio_to_fused")):
        some = np.array(rates["indexing"]) / np.array(rates[name])
        found |= {key: float(np.median(some)), f"{key}_worst": float(some.min())}
    return found


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
    what = parser.add_subparsers(required=True)
    one = what.add_parser("recall")
    one.add_argument("--library", required=True)
    one.add_argument("--data", required=True)
    one.add_argument("--split", default="val")
    one.set_defaults(run=recall)
    two = what.add_parser("speed")
    two.add_argument("model")
    two.add_argument("--items", type=int, default=10_000)
    two.set_defaults(run=speed)
    three = what.add_parser("indexing")
    three.add_argument("model")
    three.add_argument("pictures")
    three.add_argument("--count", type=int, default=320)
    three.add_argument("--rounds", type=int, default=3)
    three.set_defaults(run=indexing)
    given = parser.parse_args()
    print(json.dumps(given.run(given)))


if __name__ == "__main__":
    main()
