"""Are words understood that no training caption ever used?

Nouns of captions are replaced by others that mean much the same and that occur in no caption of the
training split (those that do are left out), and by a word that says nothing ("something"). If only
known words were understood, both would find equally little. And the noun alone is asked for: the
share of the ten best pictures of which a caption has the known noun. It ends with JSON.

    python benchmarks/held_out_words.py RUN --data path/to/flickr8k
"""

import argparse
import json
import re
from collections import Counter

import numpy as np
from splits import add_run, encoded

from diverset.training.opening import read_split

NEAR = {
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
NOTHING = "something"
HITS = 10


def swapped(text: str, old: str, new: str) -> str:
    return re.sub(rf"\b{old}\b", new, text.lower())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_run(parser)
    parser.add_argument("--most", type=int, default=100, help="captions of one noun")
    given = parser.parse_args()
    model, data, collection, images, _ = encoded(given)
    known = Counter(
        word
        for text in read_split(data, data.train).captions
        for word in re.findall(r"\w+", text.lower())
    )
    captions, owners = list(collection.captions), np.asarray(collection.owners)
    chance = np.random.default_rng(given.seed)

    def found(texts: list[str], wanted: np.ndarray) -> np.ndarray:
        """Whether the picture of each text is among the first ten."""
        return (best(texts) == wanted[:, None]).any(axis=1)

    def best(texts: list[str]) -> np.ndarray:
        scores = model.similarity(images, model.encode_texts(texts))
        return scores.topk(HITS, dim=0).indices.T.numpy()

    hits: dict[str, list[np.ndarray]] = {"known": [], "held out": [], NOTHING: []}
    alone: list[tuple[float, float, float]] = []
    print(f"{'known':12} {'held out':12} captions   R@10: known  held out  {NOTHING}")
    for old, others in NEAR.items():
        speaks = np.array([bool(re.search(rf"\b{old}\b", text.lower())) for text in captions])
        some = chance.permutation(np.flatnonzero(speaks))[: given.most]
        unknown = [new for new in others if not known[new]]
        if not len(some) or not unknown:
            continue
        texts, wanted = [captions[n].lower() for n in some], owners[some]
        plain = found(texts, wanted)
        nothing = found([swapped(text, old, NOTHING) for text in texts], wanted)
        shows = np.isin(np.arange(len(images)), owners[speaks])
        each = []
        for new in unknown:
            held = found([swapped(text, old, new) for text in texts], wanted)
            each.append(held)
            pair = shows[best([old, new])].mean(axis=1)
            alone.append((*pair.tolist(), shows.mean()))
            shares = "  ".join(f"{100 * one.mean():8.1f}" for one in (plain, held, nothing))
            print(f"{old:12} {new:12} {len(some):8}     {shares}")
        for name, one in zip(hits, (plain, np.mean(each, axis=0), nothing), strict=True):
            hits[name].append(one)
    joined = {name: np.concatenate(each) for name, each in hits.items()}
    # Nouns are drawn, not captions: those of one noun are alike.
    gains = [held - nothing for held, nothing in zip(hits["held out"], hits[NOTHING], strict=True)]
    sums, counts = np.array([one.sum() for one in gains]), np.array([len(one) for one in gains])
    draws = chance.integers(len(gains), size=(2000, len(gains)))
    low, high = np.quantile(sums[draws].sum(axis=1) / counts[draws].sum(axis=1), (0.025, 0.975))
    said = {f"R@10, {name}": round(100 * float(one.mean()), 1) for name, one in joined.items()}
    said["held out above nothing, 95 %"] = [round(100 * float(one), 1) for one in (low, high)]
    names = ("known", "held out", "by chance")
    said["noun alone, right of the best ten"] = {
        name: round(100 * float(np.mean(one)), 1)
        for name, one in zip(names, zip(*alone, strict=True), strict=True)
    }
    print(
        json.dumps(
            {"nouns": len(gains), "pairs": len(alone), "captions": int(counts.sum()), **said}
        )
    )


if __name__ == "__main__":
    main()
