"""How reliable are probabilities, and how often is "probably nothing like this here" true?

A calibration is fitted on some splits and tested on others. Of a split in both, each half is tested
with a calibration that was fitted on the other half. Queries are captions, noun phrases and nouns
of the tested images, and two lists of absent things that no calibration is fitted on. Captions
decide which images are relevant. Larger collections are filled with images of another split.

    python benchmarks/confidence.py photos --data path/to/datasets \\
        --fit coco:val_more flickr8k:val --test coco:val flickr8k:val --fill coco:train
"""

import argparse
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from absent_things import FIRST, SECOND

from diverset import Model
from diverset.data import CaptionDataset
from diverset.evaluation.calibrate import encode_images
from diverset.evaluation.calibration import GOOD, Calibration
from diverset.evaluation.calibration_fit import fit_calibration
from diverset.evaluation.calibration_report import image_probabilities, reliability, weak_share
from diverset.evaluation.caption_words import CaptionWords
from diverset.evaluation.labelled_collection import COLLECTION, Collection
from diverset.evaluation.labelled_queries import LISTED, PRESENT, LabelledQuery, absent_queries
from diverset.evaluation.open_run import open_run
from diverset.evaluation.options import EvalOptions
from diverset.recipe.datasets import DatasetReader, join_datasets

SIZES = (1, 3, 10, 12, 100, 500, 1000, 10_000)
QUERIES = 1000  # of each kind per tested collection
REPEATS = 5  # random collections per query


class Images(NamedTuple):
    """A dataset with the sets of its images."""

    dataset: CaptionDataset
    sets: torch.Tensor

    def subset(self, rows: np.ndarray) -> "Images":
        return Images(self.dataset.subset(rows.tolist()), self.sets[torch.from_numpy(rows)])


class Tested(NamedTuple):
    """A calibration, images that it was not fitted on, and their labelled queries."""

    calibration: Calibration
    images: Images
    collection: Collection


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
    reader = DatasetReader(data)
    images = {
        split: read(model, reader.read(split)) for split in dict.fromkeys([*args.fit, *args.test])
    }
    both = [split for split in args.fit if split in args.test]
    halves = {split: np.array_split(rng.permutation(len(images[split].sets)), 2) for split in both}
    fixed = [
        collection
        for split in args.fit
        if split not in both
        for collection in collections(model, images[split], vocabulary, rng)
    ]
    tested: dict[str, list[Tested]] = {split: [] for split in args.test}
    for fold in range(2 if both else 1):
        fitted = list(fixed)
        for split in both:
            half = images[split].subset(halves[split][fold])
            fitted += collections(model, half, vocabulary, rng)
        calibration = fit_calibration(fitted, vocabulary, rng)
        print(f"fitted on {sum(map(len, fitted)):,} images")
        for split in args.test:
            if split in both or fold == 0:
                part = images[split].subset(halves[split][1 - fold]) if split in both else None
                part = part or images[split]
                queries = Collection.of(model, part.dataset, part.sets, vocabulary, rng, QUERIES)
                tested[split].append(Tested(calibration, part, queries))
    fill = None
    if args.fill:
        others = reader.read(args.fill)
        needed = max(SIZES) - min(len(each.collection) for all in tested.values() for each in all)
        fill = read(model, others.subset(rng.permutation(len(others))[:needed].tolist()))
    for split, parts in tested.items():
        print(f"\n{split}: {' and '.join(f'{len(part.collection):,}' for part in parts)} images")
        report_weak(parts, fill, model, rng)
        report_deciles(parts, rng)


def read(model: Model, dataset: CaptionDataset) -> Images:
    return Images(dataset, encode_images(model, dataset))


def collections(
    model: Model, images: Images, vocabulary: CaptionWords, rng: np.random.Generator
) -> list[Collection]:
    """Random collections of at most `COLLECTION` images."""
    rows = rng.permutation(len(images.sets))
    parts = [images.subset(part) for part in np.array_split(rows, -(-len(rows) // COLLECTION))]
    return [Collection.of(model, part.dataset, part.sets, vocabulary, rng) for part in parts]


def report_weak(
    parts: list[Tested], fill: Images | None, model: Model, rng: np.random.Generator
) -> None:
    """Print the share of queries with weak confidence, and of absent things with a good hit."""
    print("queries with weak confidence:")
    print("images | " + " | ".join(PRESENT) + " | first absent list | second")
    larger = [join(part.images, fill, max(SIZES)) if fill else part.images for part in parts]
    absent = [
        [
            Collection.search(model, absent_queries(each.dataset, things), each.sets)
            for things in (FIRST, SECOND)
        ]
        for each in larger
    ]
    for size in SIZES:
        shares = []
        for part, large, things in zip(parts, larger, absent, strict=True):
            small = size <= len(part.collection)
            if small or size <= len(large.sets):
                own = part.collection if small else extend(part.collection, large, model)
                kinds = [(own, kind) for kind in PRESENT] + [(each, LISTED) for each in things]
                shares.append([share(part.calibration, *kind, size, rng) for kind in kinds])
        if shares:
            print(f"{size:,} | " + " | ".join(f"{value:.1%}" for value in np.mean(shares, axis=0)))
    best = [
        image_probabilities(part.calibration, each, 1, [LISTED])[0]
        for part, things in zip(parts, absent, strict=True)
        for each in things
    ]
    good = np.mean(np.concatenate(best) >= GOOD)
    print(f"absent things with a hit of {GOOD:.0%} or more: {good:.1%}")


def share(
    calibration: Calibration, collection: Collection, kind: str, size: int, rng: np.random.Generator
) -> float:
    repeats = REPEATS if size < len(collection) else 1
    return float(
        np.mean([weak_share(calibration, collection, [kind], size, rng) for _ in range(repeats)])
    )


def report_deciles(parts: list[Tested], rng: np.random.Generator) -> None:
    print("probability, share of relevant hits with the 95 % interval, and number, per decile:")
    for title, best in (("ten best hits", 10), ("any image", None)):
        for kinds in (PRESENT, *((kind,) for kind in PRESENT)):
            rated = [
                image_probabilities(each.calibration, each.collection, best, kinds)
                for each in parts
            ]
            width = min(values.shape[1] for values, _ in rated)
            values, relevant = (
                np.concatenate([matrix[:, :width] for matrix in column])
                for column in zip(*rated, strict=True)
            )
            deciles = reliability(values, relevant, rng)
            shown = ", ".join(f"{decile} {decile.hits:,}" for decile in deciles)
            print(f"{title}, {'all kinds' if len(kinds) > 1 else kinds[0]}: {shown}")


def join(images: Images, fill: Images, size: int) -> Images:
    more = fill.subset(np.arange(size - len(images.sets)))
    dataset = join_datasets(["tested", "more"], [images.dataset, more.dataset])
    return Images(dataset, torch.cat([images.sets, more.sets]))


def extend(collection: Collection, largest: Images, model: Model) -> Collection:
    """The same queries in a larger collection; only the images of the smaller one are labelled."""
    padding = len(largest.sets) - len(collection)
    queries: list[LabelledQuery] = [
        replace(query, relevant=np.pad(query.relevant, (0, padding)))
        for query in collection.queries
        if query.kind in PRESENT
    ]
    return Collection.search(model, queries, largest.sets)


if __name__ == "__main__":
    main()
