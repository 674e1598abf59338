"""What does searching sets cost, compared with faiss over one float32 vector per item?

For clustered sets (K = 4, D = 256) of every size, in one run, in turns and with equal threads:

- exact search against brute force on every query (equal ids, up to ties), and against a flat scan
  of faiss over one vector per item, for single queries and for batches of 32;
- at the size of --approximate-at, approximate search tuned to a recall of 0.99 against an HNSW of
  faiss over one vector per item at a recall of at least 0.99, for batches of 32 and single queries;
- bytes per item that stay in memory, and how the cost of a query grows with the collection.

The last line is JSON: the exact figures of the last collection (`exact_at` items), the approximate
ones of `approximate_at` items, and `differing`, the number of queries that differ from brute force.
If there are any, the exit code is 1.

The vector of an item is its mean, l2-normalized. Each time is the best of the repeats, and of four
times as many repeats in the comparison of graphs.

    python benchmarks/search.py
    python benchmarks/search.py --sizes 10000 100000 --approximate-at 100000
    python benchmarks/search.py --sizes 10000 --sets texts.npy --queries-file images.npy
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from timing import describe_machine, interleaved

from diverset.index import IndexSettings, SetIndex
from diverset.index.approximate import load_faiss
from diverset.index.quantized_codes import TENSORS
from diverset.similarity import similarity_matrix

faiss = load_faiss()  # after torch, with threads that sleep while idle
ELEMENTS, DIM, K, BATCH = 4, 256, 10, 32
PORTION = 20_000  # items generated at once
SINGLES = 8  # single queries per measurement
EF_SEARCH = (10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512)


class Clustered:
    """Sets around items around centers; the same in every pass."""

    def __init__(self, count: int, spread: float, within: float) -> None:
        self.count, self.spread, self.within = count, spread, within
        rng = np.random.default_rng(0)
        self.centers = unit(rng.standard_normal((max(10, count // 100), DIM), dtype=np.float32))

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, self.count, PORTION):
            yield self.draw(min(PORTION, self.count - start), start + 1)

    def draw(self, count: int, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        items = self.centers[rng.integers(len(self.centers), size=count)]
        noise = rng.standard_normal((count, DIM), dtype=np.float32)
        items = unit(items + self.spread / DIM**0.5 * noise)[:, None]
        noise = rng.standard_normal((count, ELEMENTS, DIM), dtype=np.float32)
        return unit(items + self.within / DIM**0.5 * noise)


class FromFiles:
    """Sets from a file, and queries from another."""

    def __init__(self, sets: np.ndarray, queries: np.ndarray) -> None:
        self.sets, self.queries, self.count = sets, queries, len(sets)

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self.sets[start : start + PORTION] for start in range(0, self.count, PORTION))

    def draw(self, count: int, seed: int) -> np.ndarray:
        rows = np.random.default_rng(seed).permutation(len(self.queries))[:count]
        return np.ascontiguousarray(self.queries[rows])


Data = Clustered | FromFiles


def unit(values: np.ndarray) -> np.ndarray:
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def vectors(sets: np.ndarray) -> np.ndarray:
    """One vector per item."""
    return unit(sets.mean(axis=1))


def build(data: Data, folder: Path) -> tuple[SetIndex, Any]:
    """The index of sets and the flat index of vectors; reuses the index of an earlier run."""
    elements, dim = next(iter(data)).shape[1:]
    reused = folder.exists()
    settings = IndexSettings(model="benchmark", elements=elements, dim=dim)
    index = SetIndex.open(folder) if reused else SetIndex.create(folder, settings)
    flat = faiss.IndexFlatIP(dim)
    count, start = 0, time.perf_counter()
    for sets in data:
        if not reused:
            index.add([f"{count + n}" for n in range(len(sets))], sets)
        flat.add(vectors(sets))
        count += len(sets)
    if reused:
        print(f"  index reused from {folder.name}")
    else:
        index.compact()
        print(f"  filled at {count / (time.perf_counter() - start):,.0f} items/s, both indexes")
    if index.count() != data.count:
        raise SystemExit(f"{folder} holds {index.count()} items; delete it")
    return index, flat


def vector_graph(flat: Any, file: Path) -> Any:
    """The HNSW graph that approximate search is compared with; stored beside the index."""
    if file.exists():
        return faiss.read_index(str(file))
    start = time.perf_counter()
    graph = faiss.IndexHNSWFlat(flat.d, 32, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = 64
    graph.add(flat.reconstruct_n(0, flat.ntotal))
    print(f"  faiss HNSW32 built in {time.perf_counter() - start:.0f} s")
    faiss.write_index(graph, str(file))
    return graph


def tune(index: SetIndex, data: Data) -> None:
    """Tune the index, unless an earlier run did."""
    if index.plan is not None:
        print(f"  plan of an earlier run: {index.plan}")
        return
    start = time.perf_counter()
    result = index.tune(data.draw(400, 10**9), recall=0.99, k=K)
    print(f"  tuned in {time.perf_counter() - start:.0f} s: {result}")


def differing(data: Data, index: SetIndex, queries: np.ndarray) -> int:
    """Number of queries whose exact hits are not those of brute force, except ties."""
    tensor = torch.from_numpy(queries)
    best = torch.full((len(queries), 0), 0.0)
    items = torch.zeros((len(queries), 0), dtype=torch.int64)
    count = 0
    for sets in data:
        scores = similarity_matrix(tensor, torch.from_numpy(np.ascontiguousarray(sets)))
        rows = torch.arange(count, count + len(sets)).expand(len(queries), -1)
        best, order = torch.cat([best, scores], dim=1).topk(K)
        items = torch.cat([items, rows], dim=1).gather(1, order)
        count += len(sets)
    wrong = 0
    for hits, scores, ids in zip(index.search(queries, K), best, items, strict=True):
        same = [hit.id for hit in hits] == [str(item) for item in ids.tolist()]
        tied = np.allclose([hit.score for hit in hits], scores.numpy(), atol=1e-6, rtol=0)
        wrong += not (same or tied)
    return wrong


def single_queries(
    search: Callable[[np.ndarray], object], queries: np.ndarray
) -> Callable[[], object]:
    return lambda: [search(queries[n : n + 1]) for n in range(SINGLES)]


def measure_exact(
    index: SetIndex, flat: Any, queries: np.ndarray, repeats: int
) -> dict[str, float]:
    single, batch = vectors(queries)[:SINGLES], vectors(queries)[:BATCH]
    times = interleaved(
        {
            "faiss": single_queries(lambda query: flat.search(query, K), single),
            "exact": single_queries(lambda query: index.search(query, K), queries),
            "faiss 32": lambda: flat.search(batch, K),
            "exact 32": lambda: index.search(queries[:BATCH], K),
        },
        repeats,
    )
    times = {name: t if "32" in name else t / SINGLES for name, t in times.items()}
    print("  " + ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in times.items()))
    return times


def set_ef_search(graph: Any, flat: Any, queries: np.ndarray) -> float:
    """Set the smallest efSearch with a recall of 0.99 of the flat scan; returns the recall."""
    exact = flat.search(queries, K)[1]
    for ef_search in EF_SEARCH:
        graph.hnsw.efSearch = ef_search
        rows = graph.search(queries, K)[1]
        recall = np.mean([len(set(a) & set(b)) / K for a, b in zip(rows, exact, strict=True)])
        if recall >= 0.99:
            break
    return float(recall)


def measure_approximate(
    index: SetIndex, flat: Any, data: Data, repeats: int
) -> tuple[float, float]:
    """Time of approximate search over that of an HNSW at equal recall, and its recall."""
    graph = vector_graph(flat, index.folder.with_suffix(".hnsw"))
    tune(index, data)
    queries = data.draw(10 * BATCH, 10**9 + 1)
    means = vectors(queries)
    graph_recall = set_ef_search(graph, flat, means)
    approximate, exact = index.search(queries, K, exact=False), index.search(queries, K)
    pairs = zip(approximate, exact, strict=True)
    recall = np.mean([len({h.id for h in a} & {h.id for h in b}) / K for a, b in pairs])
    parts = [slice(start, start + BATCH) for start in range(0, len(queries), BATCH)]
    times = interleaved(
        {
            "HNSW 32": lambda: [graph.search(means[part], K) for part in parts],
            "sets 32": lambda: [index.search(queries[part], K, exact=False) for part in parts],
            "HNSW": single_queries(lambda query: graph.search(query, K), means),
            "sets": single_queries(lambda query: index.search(query, K, exact=False), queries),
        },
        4 * repeats,  # short measurements are disturbed more easily
    )
    print(
        f"  recall@{K}: HNSW {graph_recall:.4f} (efSearch {graph.hnsw.efSearch}), "
        f"approximate search {recall:.4f}; "
        f"per query of a batch: HNSW {1e6 * times['HNSW 32'] / len(queries):.0f} us, "
        f"approximate search {1e6 * times['sets 32'] / len(queries):.0f} us; "
        f"single: {1e6 * times['HNSW'] / SINGLES:.0f} us, {1e6 * times['sets'] / SINGLES:.0f} us"
    )
    return times["sets 32"] / times["HNSW 32"], float(recall)


def resident_bytes(index: SetIndex, queries: np.ndarray) -> float:
    """Bytes per item that a scan reads or keeps for the next one; the sets are memory-mapped."""
    index.search(queries[:4], K)  # buffers of more queries are freed
    scan = index.view().scan
    total = scan.rows.nbytes + scan.buffer_bytes
    for part in scan.parts:
        tensors = [getattr(part, name) for name in TENSORS if name != "sets"]
        total += sum(tensor.nbytes for tensor in tensors)
    return total / len(scan)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--approximate-at", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=64, help="compared with brute force")
    parser.add_argument("--spread", type=float, default=0.6, help="of items in a cluster")
    parser.add_argument("--within", type=float, default=0.5, help="spread of elements in a set")
    parser.add_argument("--sets", help=".npy of sets to search as well, (items, elements, dim)")
    parser.add_argument("--queries-file", help=".npy of query sets for --sets")
    parser.add_argument("--folder", help="keeps indexes, graphs and plans; a million: 11 GB")
    parser.add_argument("--only-build", action="store_true", help="for a later run; needs --folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


def run(name: str, data: Data, folder: Path, args: argparse.Namespace) -> dict[str, float]:
    """The figures of one collection; empty with --only-build."""
    queries = data.draw(args.queries, 10**9 + 2)
    norms = np.linalg.norm(queries.mean(axis=1), axis=1)
    print(f"{name}; circular variance of queries {1 - norms.mean():.3f}")
    index, flat = build(data, folder / name.replace(" ", "-").replace(",", ""))
    approximate = data.count == args.approximate_at or isinstance(data, FromFiles)
    with index:
        if args.only_build:
            if approximate:
                vector_graph(flat, index.folder.with_suffix(".hnsw"))
                tune(index, data)
            return {}
        wrong = differing(data, index, queries)
        print(f"  exact search differs from brute force on {wrong} of {len(queries)} queries")
        times = measure_exact(index, flat, queries, args.repeats)
        figures = {
            "exact_ratio": times["exact"] / times["faiss"],
            "exact_batch_ratio": times["exact 32"] / times["faiss 32"],
            "bytes_per_item": resident_bytes(index, queries),
            "exact_at": data.count,
            "differing": wrong,
            "ms": 1e3 * times["exact"],
        }
        if approximate:
            ratio, recall = measure_approximate(index, flat, data, args.repeats)
            figures |= {"approximate_ratio": ratio, "approximate_recall": recall}
            figures["approximate_at"] = data.count
    print("  " + json.dumps({key: round(value, 3) for key, value in figures.items()}))
    return figures


def main() -> None:
    args = parse_args()
    torch.set_num_threads(args.threads)
    faiss.omp_set_num_threads(args.threads)
    print(f"{describe_machine()}, faiss {faiss.__version__}")
    collections: dict[str, Data] = {
        f"{size:,} clustered sets": Clustered(size, args.spread, args.within) for size in args.sizes
    }
    if args.sets:
        sets, queries = (np.load(file, mmap_mode="c") for file in (args.sets, args.queries_file))
        collections = {f"{len(sets):,} sets of a file": FromFiles(sets, queries), **collections}
    figures: dict[str, float] = {}
    milliseconds, wrong = {}, 0
    for name, data in collections.items():
        with tempfile.TemporaryDirectory() as temporary:
            result = run(name, data, Path(args.folder or temporary), args)
        if result:
            milliseconds[data.count] = round(result.pop("ms"), 2)
            wrong += int(result["differing"])
            figures |= result
    if args.only_build:
        return
    print(f"ms per query by number of items: {milliseconds}")
    figures["differing"] = wrong
    print(json.dumps({key: round(value, 3) for key, value in figures.items()}))
    if wrong:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
