"""Fill a store with generated sets, and check that it finds what brute force finds.

    python deploy/check_store.py fill ADDRESS     create the store and add the sets
    python deploy/check_store.py check ADDRESS    compare its hits; exit code 1 if they differ

Check before, during and after the loss of a node. Addresses are those of `diverset store`. Needs
the extra `engines`.
"""

from __future__ import annotations

import argparse
from contextlib import closing

import numpy as np
import torch
from jaxtyping import Float

from diverset.engines import create_store, open_store
from diverset.engines.addresses import is_engine
from diverset.index.set_store import IndexSettings
from diverset.similarity import smooth_chamfer

SETTINGS = IndexSettings(model="generated", elements=4, dim=64)
BATCH, K, TOLERANCE = 500, 10, 1e-5


def generated_sets(count: int, seed: int) -> Float[np.ndarray, "items elements dim"]:
    """Sets around a few topics, as those of real images are; the same for the same seed."""
    rng = np.random.default_rng(seed)
    topics = np.random.default_rng(99).normal(size=(50, SETTINGS.elements, SETTINGS.dim))
    noise = rng.normal(size=(count, SETTINGS.elements, SETTINGS.dim))
    sets = topics[rng.integers(len(topics), size=count)] + 0.7 * noise
    return (sets / np.linalg.norm(sets, axis=-1, keepdims=True)).astype(np.float32)


def fill(address: str, items: int) -> None:
    sets = generated_sets(items, seed=0)
    with closing(create_store(address, SETTINGS)) as store:
        for start in range(0, items, BATCH):
            part = range(start, min(start + BATCH, items))
            names, numbers = [f"item-{number:07d}" for number in part], [{"n": n} for n in part]
            store.add(names, sets[start : start + BATCH], numbers)
    print(f"added {items:,} sets")


def check(address: str, items: int, queries: int) -> bool:
    """Whether all items are there and exact search agrees with brute force."""
    sets, asked = generated_sets(items, seed=0), generated_sets(queries, seed=1)
    scores = smooth_chamfer(torch.from_numpy(asked), torch.from_numpy(sets), SETTINGS.alpha).numpy()
    best = -np.sort(-scores, axis=1)[:, :K]
    with closing(open_store(address, model=SETTINGS.model)) as store:
        count = store.count()
        exact = store.search(asked, k=K)
        approximate = store.search(asked, k=K, exact=False) if is_engine(address) else exact
    wrong = sum(
        len(hits) != len(row)
        or not np.allclose([hit.score for hit in hits], row, rtol=0, atol=TOLERANCE)
        for hits, row in zip(exact, best, strict=True)
    )
    shared = [
        len({hit.id for hit in hits} & {hit.id for hit in candidates}) / len(hits)
        for hits, candidates in zip(exact, approximate, strict=True)
        if hits
    ]
    print(f"{count:,} of {items:,} items; {wrong} of {queries} queries differ from brute force")
    print(f"recall of approximate search: {np.mean(shared) if shared else 0:.3f}")
    return count == items and wrong == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["fill", "check"])
    parser.add_argument("address", help="qdrant://..., postgresql://... or a folder")
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=20)
    args = parser.parse_args()
    if args.action == "fill":
        fill(args.address, args.items)
    elif not check(args.address, args.items, args.queries):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
