"""Are `--and` and `--not` better than writing the same in one text?

Thirty pairs of things per kind of query, and random pairs of nouns (--random). Of the first ten
hits those are relevant whose captions mention both things (and), or the first and not the second
(not). "--and" and "--not" rank as the photo tool does.

    python benchmarks/combined_queries.py photos --data path/to/datasets --split flickr8k:val
"""

import argparse
from itertools import permutations

import numpy as np
import torch
from splits import add_run

from diverset.data import CaptionDataset
from diverset.evaluation.calibrate import encode_images
from diverset.evaluation.calibration import load_calibration
from diverset.evaluation.caption_words import CaptionWords, words
from diverset.evaluation.labelled_queries import CaptionIndex
from diverset.evaluation.open_run import open_run
from diverset.evaluation.options import EvalOptions
from diverset.model.folder import model_folder
from diverset.photos.search.query import (
    EXCLUDED,
    JOINT,
    TEXT,
    Clause,
    CombinedScore,
    SearchQuery,
)
from diverset.recipe.datasets import read_split

AND = (
    ("dog", "snow"), ("dog", "ball"), ("dog", "water"), ("dog", "beach"), ("dog", "grass"),
    ("child", "pool"), ("girl", "swing"), ("boy", "ball"), ("man", "bicycle"), ("man", "guitar"),
    ("woman", "umbrella"), ("woman", "dress"), ("man", "hat"), ("skateboard", "stairs"),
    ("snow", "mountain"), ("surfboard", "wave"), ("car", "street"), ("bus", "street"),
    ("bench", "tree"), ("boat", "water"), ("horse", "fence"), ("cat", "bed"), ("cat", "laptop"),
    ("pizza", "table"), ("cake", "candle"), ("bird", "tree"), ("train", "bridge"),
    ("toilet", "sink"), ("phone", "woman"), ("kite", "beach"),
)  # fmt: skip
NOT = (
    ("dog", "snow"), ("dog", "water"), ("dog", "grass"), ("dog", "ball"), ("child", "swing"),
    ("child", "pool"), ("girl", "dress"), ("boy", "ball"), ("man", "bicycle"), ("woman", "child"),
    ("beach", "dog"), ("beach", "surfboard"), ("snow", "ski"), ("snow", "dog"), ("street", "car"),
    ("street", "bicycle"), ("mountain", "snow"), ("water", "boat"), ("grass", "dog"),
    ("ball", "dog"), ("bench", "dog"), ("horse", "man"), ("cat", "bed"), ("pizza", "table"),
    ("bus", "car"), ("train", "bridge"), ("bird", "water"), ("kitchen", "man"), ("cake", "candle"),
    ("tennis", "woman"),
)  # fmt: skip
HITS, SAMPLE = 10, 1000
MIN_IMAGES = 5  # that are relevant for a pair; other pairs are left out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_run(parser)
    parser.add_argument("--random", type=int, default=0, help="number of random pairs of nouns")
    args = parser.parse_args()
    model, data = open_run(args.run)
    dataset = read_split(EvalOptions(root=args.data).data_config(data), args.split)
    images, index = encode_images(model, dataset).numpy(), CaptionIndex(dataset)
    alpha = model.config.similarity.alpha
    calibration = load_calibration(model_folder(args.run), model.fingerprint())
    sample = images[np.random.default_rng(args.seed).permutation(len(images))[:SAMPLE]]

    def clause(text: str, role: str = TEXT) -> Clause:
        with torch.no_grad():
            return Clause(model.encode_texts([text])[0].float().numpy(), role, text=text)

    def relevant_of_ten(clauses: list[Clause], relevant: np.ndarray) -> float:
        score = CombinedScore(clauses, sample, alpha, calibration)
        cosines = np.einsum("qd,nsd->nqs", score.elements, images, optimize=True)
        best = np.argsort(-score(cosines))[:HITS]
        return HITS * float(relevant[best].mean())

    def show(title: str, pairs: tuple[tuple[str, str], ...], excluding: bool) -> None:
        rows: dict[str, list[float]] = {}
        for first, second in pairs:
            relevant = index.images_with(words(first))
            other = index.images_with(words(second))
            relevant = relevant & ~other if excluding else relevant & other
            if relevant.sum() < MIN_IMAGES:
                continue
            if excluding:
                combined = [clause(first), clause(second, EXCLUDED)]
                plain = {"first text": first, "in words": f"{first} without {second}"}
            else:
                joint = SearchQuery(first, required=[second]).joint_texts
                combined = [clause(text) for text in (first, second)]
                combined += [clause(text, JOINT) for text in joint]
                plain = {
                    "A and B": f"{first} and {second}",
                    "A B": f"{first} {second}",
                    "a A and a B": f"a {first} and a {second}",
                }
            for name, text in plain.items():
                rows.setdefault(name, []).append(relevant_of_ten([clause(text)], relevant))
            rows.setdefault(title, []).append(relevant_of_ten(combined, relevant))
        count = len(rows[title])
        print(
            f"{count} pairs:", {name: round(float(np.mean(row)), 2) for name, row in rows.items()}
        )

    show("--and", AND, excluding=False)
    show("--not", NOT, excluding=True)
    if args.random:
        rng = np.random.default_rng(args.seed)
        nouns = common_nouns(dataset)
        pairs = [pair for pair in permutations(nouns, 2) if index.images_with(pair).sum() >= HITS]
        chosen = tuple(pairs[row] for row in rng.permutation(len(pairs))[: args.random])
        show("--and", chosen, excluding=False)
        show("--not", chosen, excluding=True)


def common_nouns(dataset: CaptionDataset) -> list[str]:
    """Nouns in the captions of between 2 and 25 percent of the images."""
    index = CaptionIndex(dataset)
    nouns = sorted(CaptionWords.of(dataset.captions).nouns - {"person"})
    return [noun for noun in nouns if 0.02 <= index.images_with([noun]).mean() <= 0.25]


if __name__ == "__main__":
    main()
