"""What does searching sets cost, compared with faiss over one float32 vector per item?

For every kind of sets and every size, in one run, in turns and with equal threads:

- exact search against brute force on every query (equal ids, up to ties), and against a flat scan
  of faiss over one vector per item, for single queries and for batches of 32;
- for the collections of --approximate, approximate search tuned to a recall of 0.99 against an HNSW
  of faiss over one vector per item at a recall of at least 0.99, for batches of 32;
- bytes per item that stay in memory, and the times to fill, open and tune.

With --busy, single queries are timed one by one, on the machine as it is and while one process per
thread keeps the cores busy: the median and the 99th percentile.

The last line is JSON: the worst ratio of each mode over all collections, the lowest recall, the
most bytes per item, and `differing`, the number of queries that differ from brute force. If there
are any, the exit code is 1.

The vector of an item is its mean, l2-normalized. Each time is the best of the repeats, and of four
times as many repeats in the comparison of graphs. Real sets: benchmarks/encode_sets.py.

    python benchmarks/search.py
    python benchmarks/search.py --sizes 10000 100000 --sets texts.npy --queries-file images.npy
    python benchmarks/search.py --sizes 100000 --kinds clustered --approximate clustered-100000
    python benchmarks/search.py --sizes 100000 --busy
    python benchmarks/search.py --sizes 10000000 --dim 64 --kinds clustered --folder indexes
    python benchmarks/search.py --cpu-time
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import torch
from search_data import DIM, KINDS, Data, collections
from search_runs import (
    bytes_per_item,
    differing,
    faiss,
    measure_approximate,
    measure_busy,
    measure_exact,
    open_indexes,
)
from timing import describe_machine

LOWEST = ("approximate_recall",)  # of which the lowest value is the worst


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--dim", type=int, default=DIM, help=f"of generated sets (default: {DIM})")
    parser.add_argument("--sets", help=".npy of sets to search as well, (items, elements, dim)")
    parser.add_argument("--queries-file", help=".npy of query sets for --sets")
    parser.add_argument(
        "--approximate", nargs="*", default=["clustered-100000"], metavar="KIND-SIZE",
        help="collections that are also searched approximately (default: clustered-100000)",
    )  # fmt: skip
    parser.add_argument("--queries", type=int, default=64, help="compared with brute force")
    parser.add_argument("--busy", action="store_true", help="time single queries on busy cores")
    parser.add_argument("--folder", help="keeps indexes, graphs and plans; a million: 11 GB")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--cpu-time", action="store_true",
        help="measure CPU seconds of one thread, on machines whose cores others use",
    )  # fmt: skip
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


def run(name: str, data: Data, folder: Path, args: argparse.Namespace) -> dict[str, float]:
    """The figures of one collection."""
    queries = data.draw(args.queries, 10**9 + 2)
    variance = 1 - float(torch.from_numpy(queries).mean(dim=1).norm(dim=1).mean())
    print(f"{name}; circular variance of queries {variance:.3f}")
    index, flat = open_indexes(data, folder / name)
    with index:
        if args.busy:
            return measure_busy(index, flat, data, args.threads)
        figures = {"differing": differing(data, index, queries)}
        clock = time.process_time if args.cpu_time else time.perf_counter
        figures |= measure_exact(index, flat, queries, args.repeats, clock)
        figures["bytes_per_item"] = bytes_per_item(index)
        if name in args.approximate:
            figures |= measure_approximate(index, flat, data, args.repeats, clock)
    print("  " + json.dumps({key: round(value, 3) for key, value in figures.items()}))
    return figures


def worst(results: list[dict[str, float]]) -> dict[str, float]:
    """The worst of each figure; differing queries are added up."""
    names = dict.fromkeys(name for result in results for name in result if "_ms" not in name)
    summary = {}
    for name in names:
        values = [result[name] for result in results if name in result]
        choose = sum if name == "differing" else min if name in LOWEST else max
        summary[name] = round(choose(values), 3)
    return summary


def main() -> None:
    args = parse_args()
    args.threads = 1 if args.cpu_time else args.threads
    torch.set_num_threads(args.threads)
    faiss.omp_set_num_threads(args.threads)
    print(f"{describe_machine()}, faiss {faiss.__version__}")
    results = []
    files = args.sets, args.queries_file
    for name, data in collections(args.kinds, args.sizes, *files, args.dim).items():
        with tempfile.TemporaryDirectory() as temporary:
            results.append(run(name, data, Path(args.folder or temporary), args))
    summary = worst(results)
    print(json.dumps(summary))
    if summary.get("differing"):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
