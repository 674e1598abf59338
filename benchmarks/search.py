"""What does searching sets cost, against faiss over one float32 vector an item?

For clustered sets (K = 4, D = 256) of every size, in one run and turn by turn, with equal threads:

- exact mode against brute force on every query (equal ids, up to ties), and against a flat scan of
  faiss over one vector an item, for single queries and for batches of 32;
- at the size of --fast-at, fast mode tuned to a recall of 0.99 against an HNSW of faiss over one
  vector an item at a recall of 0.99 or more of its own, for batches of 32 and single queries;
- bytes an item that stay in memory, and how the cost of a query grows with the collection.

The last line is JSON: the exact figures of the last collection (`exact_at` items), the fast ones of
`fast_at` items, and `differing`, the queries that differ from brute force; if there are any, the
exit status is 1.

The vector of an item is its mean, l2-normalised. Each time is the best of
the repeats, of four times as many in the comparison of graphs.

    python benchmarks/search.py
    python benchmarks/search.py --sizes 10000 100000 --fast-at 100000
    python benchmarks/search.py --sizes 10000 --sets texts.npy --asked images.npy
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timing import describe_machine, interleaved

from diverset.index import SetIndex, Settings
from diverset.index.fast import load_faiss
from diverset.similarity import similarity_matrix

faiss = load_faiss()  # after torch, with threads that do not wait awake
SLOTS, DIM, K, BATCH = 4, 256, 10, 32
PORTION = 20_000
SINGLES = 8  # queries of a turn that are asked one by one


class Clustered:
    """Sets around items around centers, the same in every pass, made a portion at a time."""

    def __init__(self, count: int, spread: float, within: float) -> None:
        self.count, self.spread, self.within = count, spread, within
        random = np.random.default_rng(0)
        self.centers = unit(random.standard_normal((max(10, count // 100), DIM), dtype=np.float32))

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, self.count, PORTION):
            yield self.draw(min(PORTION, self.count - start), start + 1)

    def draw(self, count: int, seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        items = self.centers[random.integers(len(self.centers), size=count)]
        noise = random.standard_normal((count, DIM), dtype=np.float32)
        items = unit(items + self.spread / DIM**0.5 * noise)[:, None]
        noise = random.standard_normal((count, SLOTS, DIM), dtype=np.float32)
        return unit(items + self.within / DIM**0.5 * noise)


class Given:
    """Sets from a file, and queries from another."""

    def __init__(self, sets: np.ndarray, asked: np.ndarray) -> None:
        self.sets, self.asked, self.count = sets, asked, len(sets)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self.sets[start : start + PORTION] for start in range(0, self.count, PORTION))

    def draw(self, count: int, seed: int) -> np.ndarray:
        chosen = np.random.default_rng(seed).permutation(len(self.asked))[:count]
        return np.ascontiguousarray(self.asked[chosen])


def unit(values: np.ndarray) -> np.ndarray:
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def vectors(sets: np.ndarray) -> np.ndarray:
    """The one vector of each item."""
    return unit(sets.mean(axis=1))


def fill(data: Clustered | Given, folder: Path) -> tuple[SetIndex, Any]:
    """Both indexes; one that an earlier run left in the folder is taken as it is."""
    slots, dim = next(iter(data)).shape[1:]
    kept = folder.exists()
    settings = Settings(model="benchmark", slots=slots, dim=dim)
    index = SetIndex.open(folder) if kept else SetIndex.create(folder, settings)
    flat = faiss.IndexFlatIP(dim)
    number, began = 0, time.perf_counter()
    for sets in data:
        if not kept:
            index.add([f"{number + n}" for n in range(len(sets))], sets)
        flat.add(vectors(sets))
        number += len(sets)
    if kept:
        print(f"  index taken from {folder.name}")
    else:
        index.compact()
        print(f"  filled at {number / (time.perf_counter() - began):,.0f} items/s, both indexes")
    if index.count() != data.count:
        raise SystemExit(f"{folder} holds {index.count()} items; delete it")
    return index, flat


def single_graph(flat: Any, file: Path) -> Any:
    """What fast mode is compared with; kept beside the index."""
    if file.exists():
        return faiss.read_index(str(file))
    began = time.perf_counter()
    graph = faiss.IndexHNSWFlat(flat.d, 32, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = 64
    graph.add(flat.reconstruct_n(0, flat.ntotal))
    print(f"  faiss HNSW32 built in {time.perf_counter() - began:.0f} s")
    faiss.write_index(graph, str(file))
    return graph


def ready(index: SetIndex, data: Clustered | Given) -> None:
    """Tune, unless an earlier run left its plan."""
    if index.plan is not None:
        print(f"  plan of an earlier run: {index.plan}")
        return
    began = time.perf_counter()
    tuned = index.tune(data.draw(400, 10**9), recall=0.99, k=K)
    print(f"  tuned in {time.perf_counter() - began:.0f} s: {tuned}")


def differing(data: Clustered | Given, index: SetIndex, queries: np.ndarray) -> int:
    """Queries whose exact hits are not those of brute force, ties aside."""
    asked = torch.from_numpy(queries)
    best = torch.full((len(queries), 0), 0.0)
    names = torch.zeros((len(queries), 0), dtype=torch.int64)
    number = 0
    for sets in data:
        scores = similarity_matrix(asked, torch.from_numpy(np.ascontiguousarray(sets)))
        here = torch.arange(number, number + len(sets)).expand(len(queries), -1)
        best, order = torch.cat([best, scores], dim=1).topk(K)
        names = torch.cat([names, here], dim=1).gather(1, order)
        number += len(sets)
    wrong = 0
    for hits, scores, ids in zip(index.search(queries, K), best, names, strict=True):
        same = [hit.id for hit in hits] == [str(one) for one in ids.tolist()]
        tied = np.allclose([hit.score for hit in hits], scores.numpy(), atol=1e-6, rtol=0)
        wrong += not (same or tied)
    return wrong


def one_by_one(search: Callable[[np.ndarray], object], queries: np.ndarray) -> Callable[[], object]:
    return lambda: [search(queries[n : n + 1]) for n in range(SINGLES)]


def measure_exact(
    index: SetIndex, flat: Any, queries: np.ndarray, repeats: int
) -> dict[str, float]:
    single, batch = vectors(queries)[:SINGLES], vectors(queries)[:BATCH]
    times = interleaved(
        {
            "faiss": one_by_one(lambda some: flat.search(some, K), single),
            "exact": one_by_one(lambda some: index.search(some, K), queries),
            "faiss 32": lambda: flat.search(batch, K),
            "exact 32": lambda: index.search(queries[:BATCH], K),
        },
        repeats,
    )
    times = {name: t if "32" in name else t / SINGLES for name, t in times.items()}
    print("  " + ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in times.items()))
    return times


def reach(graph: Any, flat: Any, asked: np.ndarray) -> float:
    """Set the least effort that finds 0.99 of what a flat scan finds; the recall."""
    truth = flat.search(asked, K)[1]
    for effort in (10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512):
        graph.hnsw.efSearch = effort
        found = graph.search(asked, K)[1]
        recall = np.mean([len(set(a) & set(b)) / K for a, b in zip(found, truth, strict=True)])
        if recall >= 0.99:
            break
    return float(recall)


def measure_fast(
    index: SetIndex, flat: Any, data: Clustered | Given, repeats: int
) -> tuple[float, float]:
    """Time of fast mode over that of an HNSW at equal recall, and the recall of fast mode."""
    graph = single_graph(flat, index.folder.with_suffix(".hnsw"))
    ready(index, data)
    queries = data.draw(10 * BATCH, 10**9 + 1)
    asked = vectors(queries)
    recall = reach(graph, flat, asked)
    fast, exact = index.search(queries, K, exact=False), index.search(queries, K)
    pairs = zip(fast, exact, strict=True)
    ours = np.mean([len({h.id for h in a} & {h.id for h in b}) / K for a, b in pairs])
    parts = [slice(start, start + BATCH) for start in range(0, len(queries), BATCH)]
    times = interleaved(
        {
            "HNSW 32": lambda: [graph.search(asked[part], K) for part in parts],
            "fast 32": lambda: [index.search(queries[part], K, exact=False) for part in parts],
            "HNSW": one_by_one(lambda some: graph.search(some, K), asked),
            "fast": one_by_one(lambda some: index.search(some, K, exact=False), queries),
        },
        4 * repeats,  # such short turns are disturbed more easily
    )
    print(
        f"  recall@{K}: HNSW {recall:.4f} (efSearch {graph.hnsw.efSearch}), fast mode {ours:.4f}; "
        f"a query in a batch: HNSW {1e6 * times['HNSW 32'] / len(queries):.0f} us, "
        f"fast {1e6 * times['fast 32'] / len(queries):.0f} us; "
        f"alone: {1e6 * times['HNSW'] / SINGLES:.0f} us, {1e6 * times['fast'] / SINGLES:.0f} us"
    )
    return times["fast 32"] / times["HNSW 32"], float(ours)


def resident(index: SetIndex, queries: np.ndarray) -> float:
    """Bytes an item that every scan reads or holds, with the room that it keeps for the next one;
    the sets are mapped and read where needed."""
    index.search(queries[:4], K)  # of more, the room is given back
    scan = index.view().scan
    held = scan.rows.nbytes + scan._space.nbytes + scan._taken.nbytes
    for part in scan.parts:
        tensors = [getattr(part, field.name) for field in fields(part) if field.name != "sets"]
        held += sum(tensor.nbytes for tensor in tensors)
    return held / len(scan)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--fast-at", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=64, help="compared with brute force")
    parser.add_argument("--spread", type=float, default=0.6, help="of items in a cluster")
    parser.add_argument("--within", type=float, default=0.5, help="of elements in a set")
    parser.add_argument("--sets", help=".npy of sets to search as well, (items, slots, dim)")
    parser.add_argument("--asked", help=".npy of query sets for them")
    parser.add_argument("--folder", help="where indexes, graphs and plans stay; a million: 11 GB")
    parser.add_argument("--only-build", action="store_true", help="for a later run; needs --folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    faiss.omp_set_num_threads(given.threads)
    print(f"{describe_machine()}, faiss {faiss.__version__}")
    collections: dict[str, Clustered | Given] = {
        f"{size:,} clustered sets": Clustered(size, given.spread, given.within)
        for size in given.sizes
    }
    if given.sets:
        sets, asked = (np.load(file, mmap_mode="c") for file in (given.sets, given.asked))
        collections = {f"{len(sets):,} given sets": Given(sets, asked), **collections}
    last: dict[str, float] = {"differing": 0}
    growth = {}
    for name, data in collections.items():
        with tempfile.TemporaryDirectory() as passing:
            folder = Path(given.folder or passing)
            queries = data.draw(given.queries, 10**9 + 2)
            norms = np.linalg.norm(queries.mean(axis=1), axis=1)
            print(f"{name}; circular variance of queries {1 - norms.mean():.3f}")
            index, flat = fill(data, folder / name.replace(" ", "-").replace(",", ""))
            if given.only_build:
                if data.count == given.fast_at or isinstance(data, Given):
                    single_graph(flat, index.folder.with_suffix(".hnsw"))
                    ready(index, data)
                index.close()
                continue
            wrong = differing(data, index, queries)
            last["differing"] += wrong
            print(f"  exact mode differs from brute force on {wrong} of {len(queries)} queries")
            times = measure_exact(index, flat, queries, given.repeats)
            last["exact_at"] = data.count
            last["exact_ratio"] = times["exact"] / times["faiss"]
            last["exact_batch_ratio"] = times["exact 32"] / times["faiss 32"]
            last["bytes_per_item"] = resident(index, queries)
            print("  " + json.dumps({key: round(value, 3) for key, value in last.items()}))
            growth[data.count] = times["exact"]
            if data.count == given.fast_at or isinstance(data, Given):
                ratio, recall = measure_fast(index, flat, data, given.repeats)
                last["fast_ratio"], last["fast_recall"] = ratio, recall
                last["fast_at"] = data.count
            index.close()
    if given.only_build:
        return
    print("ms a query by items: " + str({n: round(1e3 * t, 2) for n, t in growth.items()}))
    order = ("exact_ratio", "exact_batch_ratio", "fast_ratio", "fast_recall", "bytes_per_item")
    order += ("exact_at", "fast_at", "differing")  # items of the figures; queries of all sizes
    print(json.dumps({key: round(last[key], 3) for key in order if key in last}))
    if last["differing"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
