"""Does the model understand words that no training caption contains?

Nouns in captions are replaced by synonyms that occur in no training caption (others are skipped),
and by a word without meaning ("something"). If the model understood only known words, both
replacements would retrieve equally badly. Then the noun alone is the query: the fraction of the ten
best images that have a caption with the known noun. The last line is JSON.

    python benchmarks/held_out_words.py RUN --data path/to/flickr8k
"""

import argparse
import json
import re
from collections import Counter

import numpy as np
from splits import add_run, encoded

from diverset.recipe.datasets import read_split

SYNONYMS = {
    "dog": ("canine", "hound", "mutt", "pooch", "terrier", "labrador"),
    "dogs": ("canines", "hounds", "mutts"), "boy": ("lad", "schoolboy"), "girl": ("lass",),
    "man": ("gentleman", "bloke", "chap"), "men": ("blokes", "gentlemen"), "woman": ("dame",),
    "child": ("youngster", "tot"), "children": ("youngsters", "tots"), "baby": ("newborn",),
    "beach": ("seashore", "seaside", "shoreline"), "bike": ("velocipede", "moped"),
    "bicycle": ("velocipede",), "car": ("automobile", "sedan"), "street": ("boulevard", "avenue"),
    "snow": ("snowfall", "sleet"), "mountain": ("summit", "alps"), "horse": ("stallion", "steed"),
    "ball": ("sphere", "orb"), "grass": ("turf", "lawn"), "field": ("pasture", "meadow"),
    "shirt": ("blouse", "tunic"), "forest": ("woodland",), "boat": ("vessel", "dinghy"),
    "rocks": ("boulders", "crags"), "cliff": ("precipice", "crag"), "jacket": ("anorak",),
    "skateboard": ("longboard",), "ocean": ("sea", "atlantic"), "crowd": ("throng", "mob"),
    "pool": ("lido",), "helmet": ("headgear",), "hat": ("fedora", "headgear"),
    "soccer": ("futsal",), "bench": ("pew",), "tree": ("oak", "birch"), "bird": ("sparrow",),
}  # fmt: skip
MEANINGLESS = "something"
HITS = 10
KINDS = ("known", "held out", MEANINGLESS)


def contains(text: str, word: str) -> bool:
    return re.search(rf"\b{word}\b", text.lower()) is not None


def replaced(texts: list[str], old: str, new: str) -> list[str]:
    return [re.sub(rf"\b{old}\b", new, text.lower()) for text in texts]


def bootstrap(gains: list[np.ndarray], rng: np.random.Generator) -> list[float]:
    """95% interval of the mean gain in percent; resamples nouns, whose captions are alike."""
    sums, counts = np.array([gain.sum() for gain in gains]), np.array([len(gain) for gain in gains])
    draws = rng.integers(len(gains), size=(2000, len(gains)))
    interval = np.quantile(sums[draws].sum(axis=1) / counts[draws].sum(axis=1), (0.025, 0.975))
    return [round(100 * float(end), 1) for end in interval]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_run(parser)
    parser.add_argument("--max-captions", type=int, default=100, help="per noun (default: 100)")
    args = parser.parse_args()
    model, data, dataset, images, _ = encoded(args)
    train_words = Counter(
        word
        for text in read_split(data, data.train).captions
        for word in re.findall(r"\w+", text.lower())
    )
    captions, image_index = list(dataset.captions), np.asarray(dataset.image_index)
    rng = np.random.default_rng(args.seed)

    def top(texts: list[str]) -> np.ndarray:
        scores = model.similarity(images, model.encode_texts(texts))
        return scores.topk(HITS, dim=0).indices.T.numpy()

    def recalled(texts: list[str], targets: np.ndarray) -> np.ndarray:
        """Whether the image of each text is among the ten best."""
        return (top(texts) == targets[:, None]).any(axis=1)

    recalls: dict[str, list[np.ndarray]] = {kind: [] for kind in KINDS}
    alone: list[tuple[float, float, float]] = []
    print(f"{'known':12} {'held out':12} captions   R@10: known  held out  {MEANINGLESS}")
    for noun, synonyms in SYNONYMS.items():
        mentions = np.array([contains(text, noun) for text in captions])
        rows = rng.permutation(np.flatnonzero(mentions))[: args.max_captions]
        unknown = [synonym for synonym in synonyms if not train_words[synonym]]
        if not len(rows) or not unknown:
            continue
        texts, targets = [captions[row].lower() for row in rows], image_index[rows]
        known = recalled(texts, targets)
        meaningless = recalled(replaced(texts, noun, MEANINGLESS), targets)
        relevant = np.isin(np.arange(len(images)), image_index[mentions])
        held_out = []
        for synonym in unknown:
            held_out.append(recalled(replaced(texts, noun, synonym), targets))
            precision = relevant[top([noun, synonym])].mean(axis=1)
            alone.append((*precision.tolist(), relevant.mean()))
            numbers = (known, held_out[-1], meaningless)
            columns = "  ".join(f"{100 * number.mean():8.1f}" for number in numbers)
            print(f"{noun:12} {synonym:12} {len(rows):8}     {columns}")
        results = (known, np.mean(held_out, axis=0), meaningless)
        for kind, result in zip(KINDS, results, strict=True):
            recalls[kind].append(result)
    gains = [
        held_out - meaningless
        for held_out, meaningless in zip(recalls["held out"], recalls[MEANINGLESS], strict=True)
    ]
    precisions = zip(("known", "held out", "by chance"), zip(*alone, strict=True), strict=True)
    summary = {
        "nouns": len(gains),
        "pairs": len(alone),
        "captions": sum(map(len, gains)),
        **{
            f"R@10, {kind}": round(100 * float(np.concatenate(recalls[kind]).mean()), 1)
            for kind in KINDS
        },
        f"held out minus {MEANINGLESS}, 95 %": bootstrap(gains, rng),
        "noun alone, precision at 10": {
            name: round(100 * float(np.mean(numbers)), 1) for name, numbers in precisions
        },
    }
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
