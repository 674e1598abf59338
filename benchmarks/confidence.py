"""How reliable are probabilities, and how often is the note "probably nothing like this" right?

A calibration is fitted on some splits and tested on others; of a split in both, one half is fitted
and the other tested. Queries are captions, noun phrases and nouns of the tested images, and two
lists of absent things. Captions decide which images are relevant. Larger collections are filled
with images of another split.

    python benchmarks/confidence.py photos --data path/to/datasets \\
        --fit coco:val_more flickr8k:val --test coco:val flickr8k:val --fill coco:train
"""

import argparse
from typing import NamedTuple

import numpy as np
import torch
from absent_things import FIRST, SECOND

from diverset import Model
from diverset.data import CaptionDataset
from diverset.evaluation.calibrate import encode_images
from diverset.evaluation.calibration import Calibration
from diverset.evaluation.calibration_fit import COLLECTION, Collection, fit_calibration
from diverset.evaluation.calibration_report import (
    FILTERS,
    reliability,
    sampled_probabilities,
    weak_share,
)
from diverset.evaluation.caption_words import CaptionWords, words
from diverset.evaluation.labelled_queries import ABSENT, PRESENT, CaptionIndex, LabelledQuery
from diverset.evaluation.open_run import open_run
from diverset.evaluation.options import EvalOptions
from diverset.recipe.datasets import DatasetReader, join_datasets

SIZES = (1, 3, 10, 12, 100, 1000, 10_000)


class Images(NamedTuple):
    """A dataset with the sets of its images."""

    dataset: CaptionDataset
    sets: torch.Tensor

    def subset(self, rows: np.ndarray) -> "Images":
        return Images(self.dataset.subset(rows.tolist()), self.sets[torch.from_numpy(rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", metavar="RUN_OR_MODEL")
    parser.add_argument("--data", required=True, help="folder of the datasets of the recipe")
    parser.add_argument("--fit", nargs="+", required=True, help="splits")
    parser.add_argument("--test", nargs="+", required=True, help="splits")
    parser.add_argument("--fill", help="split that fills the largest collection")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    model, data = open_run(args.model)
    data = EvalOptions(root=args.data).data_config(data)
    vocabulary = CaptionWords.of(DatasetReader(data, captions_only=True).read(data.train).captions)
    reader, fitted, tested = DatasetReader(data), [], {}
    for split in dict.fromkeys([*args.fit, *args.test]):
        images = read(model, reader.read(split))
        order = rng.permutation(len(images.dataset))
        cut = 0 if split not in args.fit else len(order) // 2 if split in args.test else len(order)
        fitted += [images.subset(rows) for rows in chunks(order[:cut])]
        if cut < len(order):
            tested[split] = images.subset(order[cut:])
    collections = [
        Collection.of(model, part.dataset, part.sets, vocabulary.nouns, rng) for part in fitted
    ]
    calibration = fit_calibration(collections, vocabulary, rng)
    print(f"fitted on {sum(map(len, collections)):,} images")
    fill = None
    if args.fill:
        others = reader.read(args.fill)
        needed = max(SIZES) - min(len(images.sets) for images in tested.values())
        fill = read(model, others.subset(rng.permutation(len(others))[:needed].tolist()))
    for split, images in tested.items():
        report(split, images, fill, model, calibration, vocabulary, rng)


def read(model: Model, dataset: CaptionDataset) -> Images:
    return Images(dataset, encode_images(model, dataset))


def chunks(rows: np.ndarray) -> list[np.ndarray]:
    count = -(-len(rows) // COLLECTION)
    return np.array_split(rows, count) if count else []


def report(
    split: str,
    images: Images,
    fill: Images | None,
    model: Model,
    calibration: Calibration,
    vocabulary: CaptionWords,
    rng: np.random.Generator,
) -> None:
    own = Collection.of(model, images.dataset, images.sets, vocabulary.nouns, rng)
    print(f"\n{split}: {len(own):,} images\nqueries with weak confidence:")
    print("images | " + " | ".join(PRESENT) + " | first absent list | second")
    largest = images if fill is None else join(images, fill, max(SIZES))
    absent = [
        Collection.search(model, absent_queries(things, largest.dataset), largest.sets)
        for things in (FIRST, SECOND)
    ]
    for size in SIZES:
        small = size <= len(own)
        if not small and len(largest.sets) < size:
            continue
        present = own if small else extend(own, largest, model)
        shares = [weak_share(calibration, present, [kind], size, rng) for kind in PRESENT]
        shares += [weak_share(calibration, things, [ABSENT], size, rng) for things in absent]
        print(f"{size:,} | " + " | ".join(f"{share:.1%}" for share in shares))
    print("probability and share of relevant hits per decile:")
    for size, repeats in [*((size, 20) for size in FILTERS), (len(own), 1)]:
        deciles = reliability(*sampled_probabilities(calibration, own, size, rng, repeats=repeats))
        print(f"{size:,} images:", ", ".join(f"{p:.0%} {r:.0%} ({n:,})" for p, r, n in deciles))


def join(images: Images, fill: Images, size: int) -> Images:
    more = fill.subset(np.arange(size - len(images.sets)))
    dataset = join_datasets(["tested", "more"], [images.dataset, more.dataset])
    return Images(dataset, torch.cat([images.sets, more.sets]))


def extend(collection: Collection, largest: Images, model: Model) -> Collection:
    """The same queries in a larger collection; only the images of the smaller one are labelled."""
    padding = len(largest.sets) - len(collection)
    queries = [
        LabelledQuery(each.kind, each.text, np.pad(each.relevant, (0, padding)), each.own)
        for each in collection.queries
    ]
    return Collection.search(model, queries, largest.sets)


def absent_queries(things: tuple[str, ...], dataset: CaptionDataset) -> list[LabelledQuery]:
    """Those of the things whose last word no caption contains."""
    index, nothing = CaptionIndex(dataset), np.zeros(len(dataset), dtype=bool)
    return [
        LabelledQuery(ABSENT, text, nothing)
        for text in things
        if not index.contains(words(text)[-1])
    ]


if __name__ == "__main__":
    main()
