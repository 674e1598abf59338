"""What search.py measures of one collection."""

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from search_data import Data, vectors
from timing import interleaved

from diverset.index import IndexSettings, SetIndex
from diverset.index.approximate import load_faiss
from diverset.index.quantized_codes import TENSORS
from diverset.similarity import similarity_matrix

faiss = load_faiss()  # after torch, with threads that sleep while idle
Clock = Callable[[], float]
K, BATCH = 10, 32
SINGLES = 8  # single queries per measurement
LATENCIES, PAUSE = 300, 0.005  # queries timed one by one, seconds between them
EF_SEARCH = (10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128, 192, 256, 384, 512)


def open_indexes(data: Data, folder: Path) -> tuple[SetIndex, Any]:
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
    if not reused:
        index.compact()
        print(f"  filled in {time.perf_counter() - start:.1f} s")
    if index.count() != data.count:
        raise SystemExit(f"{folder} holds {index.count()} items; delete it")
    index.close()
    start = time.perf_counter()
    index = SetIndex.open(folder)
    index.search(data.draw(1, 0), K)
    disk = sum(file.stat().st_size for file in folder.iterdir() if file.suffix != ".graph")
    print(f"  opened with a first query in {time.perf_counter() - start:.3f} s, "
          f"{disk / count:,.0f} bytes per item on disk")  # fmt: skip
    return index, flat


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
    print(f"  exact search differs from brute force on {wrong} of {len(queries)} queries")
    return wrong


def single_queries(
    search: Callable[[np.ndarray], object], queries: np.ndarray
) -> Callable[[], object]:
    return lambda: [search(queries[n : n + 1]) for n in range(SINGLES)]


def measure_exact(
    index: SetIndex, flat: Any, queries: np.ndarray, repeats: int, clock: Clock
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
        clock,
    )
    times = {name: t if "32" in name else t / SINGLES for name, t in times.items()}
    print("  " + ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in times.items()))
    return {
        "exact_ratio": times["exact"] / times["faiss"],
        "exact_batch_ratio": times["exact 32"] / times["faiss 32"],
    }


def measure_busy(index: SetIndex, flat: Any, data: Data, processes: int) -> dict[str, float]:
    """Latencies of single queries, first on the machine as it is, then on busy cores."""
    queries = data.draw(64, 10**9 + 2)
    means = vectors(queries)
    searches = {
        "faiss": lambda n: flat.search(means[n : n + 1], K),
        "exact": lambda n: index.search(queries[n : n + 1], K),
    }
    figures: dict[str, float] = {}
    for load in ("idle", "busy"):
        with ExitStack() as stack:
            for _ in range(processes if load == "busy" else 0):
                process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
                stack.callback(process.wait)
                stack.callback(process.kill)
            for name, search in searches.items():
                p50, p99 = np.percentile(_latencies(search, len(queries)), (50, 99))
                print(f"  {load} {name}: p50 {p50:.2f} ms, p99 {p99:.2f} ms")
                figures |= {f"{load}_{name}_p50_ms": p50, f"{load}_{name}_p99_ms": p99}
    for name in searches:
        ratio = figures[f"busy_{name}_p99_ms"] / figures[f"idle_{name}_p99_ms"]
        figures[f"busy_{name}_ratio"] = ratio
    return figures


def _latencies(search: Callable[[int], object], queries: int) -> list[float]:
    """Milliseconds of each query, with pauses as between the requests of a server."""
    taken = []
    for n in range(LATENCIES):
        time.sleep(PAUSE)
        start = time.perf_counter()
        search(n % queries)
        taken.append(1e3 * (time.perf_counter() - start))
    return taken


def bytes_per_item(index: SetIndex) -> float:
    """What a scan reads or keeps for the next one; the sets are memory-mapped."""
    scan = index.view().scan
    shared = np.shares_memory(scan.rows, scan.parts[0].rows.numpy())
    total = scan.buffer_bytes + (0 if shared else scan.rows.nbytes)
    for part in scan.parts:
        total += sum(getattr(part, name).nbytes for name in TENSORS if name != "sets")
    return total / len(scan)


def measure_approximate(
    index: SetIndex, flat: Any, data: Data, repeats: int, clock: Clock
) -> dict[str, float]:
    """Approximate search against an HNSW over single vectors at equal recall."""
    graph = _vector_graph(flat, index.folder.with_suffix(".hnsw"))
    _tune(index, data)
    queries = data.draw(10 * BATCH, 10**9 + 1)
    means = vectors(queries)
    graph_recall = _set_ef_search(graph, flat, means)
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
        clock,
    )
    print(
        f"  recall@{K}: HNSW {graph_recall:.4f} (efSearch {graph.hnsw.efSearch}), "
        f"approximate search {recall:.4f}; "
        f"per query of a batch: HNSW {1e6 * times['HNSW 32'] / len(queries):.0f} us, "
        f"approximate search {1e6 * times['sets 32'] / len(queries):.0f} us; "
        f"single: {1e6 * times['HNSW'] / SINGLES:.0f} us, {1e6 * times['sets'] / SINGLES:.0f} us"
    )
    graphs = sum(file.stat().st_size for file in index.folder.glob("*.graph"))
    return {
        "approximate_ratio": times["sets 32"] / times["HNSW 32"],
        "approximate_single_ratio": times["sets"] / times["HNSW"],
        "approximate_recall": float(recall),
        "approximate_bytes_per_item": graphs / data.count + index.view().scan.rows.itemsize,
    }


def _vector_graph(flat: Any, file: Path) -> Any:
    """The HNSW graph that approximate search is compared with; stored beside the index."""
    if file.exists():
        return faiss.read_index(str(file))
    start = time.perf_counter()
    graph = faiss.IndexHNSWFlat(flat.d, 32, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = 64
    graph.add(flat.reconstruct_n(0, flat.ntotal))
    faiss.write_index(graph, str(file))
    print(f"  faiss HNSW32 built in {time.perf_counter() - start:.0f} s, "
          f"{file.stat().st_size / flat.ntotal:,.0f} bytes per item")  # fmt: skip
    return graph


def _tune(index: SetIndex, data: Data) -> None:
    """Tune the index, unless an earlier run did."""
    if index.plan is not None:
        print(f"  plan of an earlier run: {index.plan}")
        return
    start = time.perf_counter()
    result = index.tune(data.draw(400, 10**9), recall=0.99, k=K)
    print(f"  tuned in {time.perf_counter() - start:.0f} s: {result}")


def _set_ef_search(graph: Any, flat: Any, queries: np.ndarray) -> float:
    """Set the smallest efSearch with a recall of 0.99 of the flat scan; returns the recall."""
    exact = flat.search(queries, K)[1]
    for ef_search in EF_SEARCH:
        graph.hnsw.efSearch = ef_search
        rows = graph.search(queries, K)[1]
        recall = np.mean([len(set(a) & set(b)) / K for a, b in zip(rows, exact, strict=True)])
        if recall >= 0.99:
            break
    return float(recall)
