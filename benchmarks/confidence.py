"""How reliable are probabilities, and how often is "probably nothing like this here" true?

A calibration is fitted on some splits and tested on others. A split in both is divided at random
into parts of about 1,000 images, at least two; each is tested with a calibration that was fitted on
the others. Queries are captions, noun phrases and nouns of the tested images, and two lists of
absent things that no calibration is fitted on. Captions decide which images are relevant. Larger
collections are filled with images of another split.

    python benchmarks/confidence.py photos --data path/to/datasets \\
        --fit coco:val_more flickr8k:val --test coco:val flickr8k:val --fill coco:train

With --repeats, deciles are those of several random divisions: every image is tested in several
collections by several fits. Weak confidence, which takes longer, is then left out.

    python benchmarks/confidence.py photos --data path/to/datasets --repeats 10 \\
        --fit coco:val_more flickr8k:val --test coco:val flickr8k:val
    python benchmarks/confidence.py photos --data path/to/datasets --repeats 3 \\
        --fit coco:val+val_more flickr8k:val --test coco:val+val_more
"""

import argparse
import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from absent_things import FIRST, SECOND

from diverset import Model
from diverset.data import CaptionDataset
from diverset.evaluation.calibrate import encode_images
from diverset.evaluation.calibration import GOOD, Calibration
from diverset.evaluation.calibration_fit import HITS, fit_calibration
from diverset.evaluation.calibration_report import image_probabilities, reliability, weak_share
from diverset.evaluation.caption_words import CaptionWords
from diverset.evaluation.labelled_collection import COLLECTION, Collection
from diverset.evaluation.labelled_collection import QUERIES as FITTED_QUERIES
from diverset.evaluation.labelled_queries import LISTED, PRESENT, LabelledQuery, absent_queries
from diverset.evaluation.open_run import open_run
from diverset.evaluation.options import EvalOptions
from diverset.recipe.datasets import DatasetReader, join_datasets

SIZES = (1, 3, 10, 12, 100, 500, 1000, 10_000)
QUERIES = 1000  # of each kind per tested collection
REPEATS = 5  # random collections per query
LEAST = 0.1  # probability of a pair that is not one of the ten best hits


class Images(NamedTuple):
    """A dataset with the sets of its images."""

    dataset: CaptionDataset
    sets: torch.Tensor

    def subset(self, rows: np.ndarray) -> "Images":
        return Images(self.dataset.subset(rows.tolist()), self.sets[torch.from_numpy(rows)])


class KnownTexts:
    """A model that encodes every text once."""

    def __init__(self, model: Model) -> None:
        self.config, self._model = model.config, model
        self._sets: dict[str, torch.Tensor] = {}

    def encode_texts(self, texts: list[str]) -> torch.Tensor:
        new = [text for text in dict.fromkeys(texts) if text not in self._sets]
        if new:
            self._sets.update(zip(new, self._model.encode_texts(new), strict=True))
        return torch.stack([self._sets[text] for text in texts])


class Tested(NamedTuple):
    """A calibration, images that it was not fitted on, and their labelled queries."""

    calibration: Calibration
    images: Images
    collection: Collection


class Hits(NamedTuple):
    """Pairs of a query and an image: the ten best, and others of `LEAST` or more."""

    probabilities: np.ndarray
    relevant: np.ndarray
    best: np.ndarray  # whether it is one of the ten best hits
    kinds: np.ndarray
    texts: np.ndarray  # a number per text
    images: np.ndarray  # a number per image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", metavar="RUN_OR_MODEL")
    parser.add_argument("--data", required=True, help="folder of the datasets of the recipe")
    parser.add_argument("--fit", nargs="+", required=True, help="splits")
    parser.add_argument("--test", nargs="+", required=True, help="splits")
    parser.add_argument("--fill", help="split that fills the largest collection")
    parser.add_argument("--repeats", type=int, default=1, help="random divisions (default: 1)")
    parser.add_argument("--cache", type=Path, help="folder that keeps the sets of images")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    model, data = open_run(args.model)
    data = EvalOptions(root=args.data).data_config(data)
    vocabulary = CaptionWords.of(DatasetReader(data, captions_only=True).read(data.train).captions)
    reader, texts = DatasetReader(data), KnownTexts(model)
    splits = dict.fromkeys([*args.fit, *args.test])
    images = {split: read(model, reader.read(split), args.cache) for split in splits}
    experiment = Experiment(texts, vocabulary, images, rng)
    parts: dict[str, list[Tested]] = {split: [] for split in args.test}
    hits: dict[str, list[Hits]] = {split: [] for split in args.test}
    number = defaultdict[str, int](count().__next__)
    for _ in range(args.repeats):
        for split, tested in experiment.run(args.fit, args.test):
            hits[split].append(shown_hits(tested, number))
            if args.repeats == 1:
                parts[split].append(tested)
    fill = None
    if args.fill and args.repeats == 1:
        others = reader.read(args.fill)
        needed = max(SIZES) - min(len(each.collection) for all in parts.values() for each in all)
        others = others.subset(rng.permutation(len(others))[:needed].tolist())
        fill = read(model, others, args.cache)
    for split in args.test:
        print(f"\n{split}: {len(images[split].sets):,} images, tested {len(hits[split])} times")
        if parts[split]:
            report_weak(parts[split], fill, texts, rng)
        report_deciles(Hits(*map(np.concatenate, zip(*hits[split], strict=True))), rng)


def read(model: Model, dataset: CaptionDataset, folder: Path | None) -> Images:
    """Encode the images of a dataset, or read their sets from a folder."""
    if folder is None:
        return Images(dataset, encode_images(model, dataset))
    ids = hashlib.sha256("\n".join([dataset.name, *dataset.image_ids]).encode()).hexdigest()
    file = folder / f"{model.fingerprint()}-{ids[:16]}.pt"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(encode_images(model, dataset).half(), file)
    return Images(dataset, torch.load(file).float())


class Experiment:
    """Fits and tests on random divisions of splits."""

    def __init__(
        self,
        texts: KnownTexts,
        vocabulary: CaptionWords,
        images: dict[str, Images],
        rng: np.random.Generator,
    ) -> None:
        self.texts, self.vocabulary, self.images, self.rng = texts, vocabulary, images, rng
        self.fitted_whole = cache(lambda split: self.fitted(images[split]))
        self.tested_whole = cache(lambda split: self.tested(images[split]))

    def run(self, fit: list[str], test: list[str]) -> Iterator[tuple[str, Tested]]:
        """Test all splits; those that are fitted too by parts, each by a fit on the others."""
        both = [split for split in fit if split in test]
        for divided in both or [None]:
            whole = [each for split in fit if split != divided for each in self.fitted_whole(split)]
            for rest, part in self.divide(self.images[divided]) if divided else [(None, None)]:
                fitted = [*whole, *(self.fitted(rest) if rest else [])]
                calibration = fit_calibration(fitted, self.vocabulary, self.rng)
                print(f"fitted on {sum(map(len, fitted)):,} images", flush=True)
                if part:
                    yield divided, Tested(calibration, part, self.tested(part))
                for split in test:
                    if split not in both:
                        images, collection = self.images[split], self.tested_whole(split)
                        yield split, Tested(calibration, images, collection)

    def divide(self, images: Images) -> Iterator[tuple[Images, Images]]:
        """Random parts of a split, each after the rest."""
        size = len(images.sets)
        parts = np.array_split(self.rng.permutation(size), max(round(size / COLLECTION), 2))
        for number, part in enumerate(parts):
            rest = np.concatenate(parts[:number] + parts[number + 1 :])
            yield images.subset(rest), images.subset(part)

    def fitted(self, images: Images) -> list[Collection]:
        """Random collections of at most `COLLECTION` images."""
        rows = self.rng.permutation(len(images.sets))
        parts = np.array_split(rows, -(-len(rows) // COLLECTION))
        return [self.collection(images.subset(part), FITTED_QUERIES) for part in parts]

    def tested(self, images: Images) -> Collection:
        return self.collection(images, QUERIES)

    def collection(self, images: Images, queries: int) -> Collection:
        return Collection.of(self.texts, *images, self.vocabulary, self.rng, queries)


def shown_hits(tested: Tested, number: dict[str, int]) -> Hits:
    images = np.array([number[image] for image in tested.images.dataset.image_ids])
    columns = []
    for query, scores in zip(tested.collection.queries, tested.collection.scores, strict=True):
        if query.kind in PRESENT:
            order = np.argsort(-scores)
            probabilities = tested.calibration.probabilities(scores[order], query.text)
            shown = max(HITS, int((probabilities >= LEAST).sum()))
            order = order[:shown]
            labels = (PRESENT.index(query.kind), number[f"text {query.text}"])
            columns.append(
                (
                    probabilities[:shown],
                    query.relevant[order],
                    np.arange(shown) < HITS,
                    *(np.full(shown, label) for label in labels),
                    images[order],
                )
            )
    return Hits(*map(np.concatenate, zip(*columns, strict=True)))


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


def report_deciles(hits: Hits, rng: np.random.Generator) -> None:
    print("probability, share of relevant hits and its 95 % interval, in percent, per decile:")
    for title, chosen in (
        ("ten best hits", hits.best),
        (f"any image of {LEAST:.0%} or more", hits.probabilities >= LEAST),
    ):
        for name in ("all kinds", *PRESENT):
            of_kind = (
                chosen if name == "all kinds" else chosen & (hits.kinds == PRESENT.index(name))
            )
            rows = Hits(*(column[of_kind] for column in hits))
            deciles = reliability(rows.probabilities, rows.relevant, rng, rows.texts, rows.images)
            shown = ", ".join(
                f"{100 * each.said:.1f} {100 * each.observed:.1f} ±{100 * each.margin:.1f}"
                for each in deciles
            )
            largest = max(abs(each.said - each.observed) for each in deciles)
            print(f"{title}, {name}: {shown}; largest deviation {100 * largest:.1f}", flush=True)


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
