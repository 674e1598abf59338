"""How often is the tool right when it says that nothing matches well?

Queries are captions that speak of a thing (a dog, a bicycle, snow), asked of collections of several
sizes: of some in which a picture or more shows the thing, and of some without any. A hit is right
if one of its captions speaks of the thing. The logistic is fitted on the other things, so that it
has not seen the one it judges; "before" is one that does not know how many pictures there are,
fitted on the largest size. The last line is JSON with the fit over all.

    python benchmarks/no_match.py RUN --data path/to/flickr8k --write
"""

import argparse
import json
import re
from dataclasses import asdict

import numpy as np
import torch
from splits import add_run, encoded

from diverset import Model
from diverset.loading import model_folder
from diverset.search.calibration import BEST, Calibration, fit, load_calibration, reach
from diverset.similarity import similarity_matrix

THINGS = {
    "dog": r"\bdogs?\b|pupp", "bicycle": r"bik|bicycl|cycl", "snow": r"snow|\bski|sled|\bice\b",
    "sea": r"beach|ocean|\bsea\b|surf|wave", "climbing": r"climb|cliff", "pool": r"pool|swim",
    "ball": r"\bball|soccer|football|basketball|tennis|baseball", "car": r"\bcars?\b|racing|truck",
    "skateboard": r"skateb|skater", "baby": r"\bbab(y|ies)|infant|toddler",
}  # fmt: skip
STRANGE = (
    "an elephant", "a plate of sushi", "an x-ray of a hand", "a microscope", "a zebra",
    "a screenshot of source code", "a bathroom with a white toilet", "a giraffe eating leaves",
    "a laptop computer on a desk", "a bowl of soup", "a refrigerator", "a wedding cake",
    "a train at a station", "an aquarium with fish", "a bar chart", "the surface of the moon",
    "a surgeon in an operating room", "a pizza with cheese", "a map of europe", "a violin",
    "asdf qwer zxcv", "lorem ipsum dolor sit amet", "quarterly revenue", "a teddy bear",
    "a stop sign", "a keyboard and mouse", "hot air balloons", "a penguin on ice", "a chess board",
)  # fmt: skip
NOUNS = (
    "dog", "man", "woman", "child", "boy", "girl", "snow", "beach", "water", "ball", "bike", "car",
    "street", "grass", "tree", "mountain", "rock", "skateboard", "baby", "horse", "bird", "boat",
    "crowd", "football", "basketball", "tennis", "pool", "guitar", "motorcycle", "fence", "bench",
    "bridge", "river", "hat", "dress", "shirt", "sand", "ocean", "wave", "surfer", "climber",
    "cliff", "rope", "camera", "bag", "bus", "truck", "train", "sign", "stage", "flag", "umbrella",
    "tent", "fire", "helmet", "puppy", "field", "hill", "stairs", "building", "night", "sunset",
    "swing", "slide", "trampoline", "frisbee", "stick", "flower", "lake", "waterfall", "cow", "cat",
    "elephant", "zebra", "giraffe", "spaceship", "rocket", "microscope", "violin", "piano",
    "penguin", "sushi", "pizza", "keyboard", "laptop", "refrigerator", "toilet", "chess",
    "dinosaur", "submarine", "helicopter", "volcano", "castle", "lighthouse", "windmill", "tractor",
    "sword", "crown", "dragon", "robot", "satellite", "telescope", "skeleton", "cactus",
    "pineapple", "banana", "strawberry", "cheese", "bread", "soup", "candle", "calculator",
    "dentist", "laboratory", "factory", "pyramid", "iceberg", "jellyfish", "octopus", "whale",
    "shark", "tiger", "lion", "wolf", "fox", "owl", "parrot", "peacock", "snail", "crocodile",
    "kangaroo", "koala", "panda", "gorilla", "camel", "rhinoceros", "invoice", "spreadsheet",
    "blueprint", "passport", "microchip", "turbine", "skyscraper", "cathedral", "tombstone",
)  # fmt: skip
HITS = 10


def rows(scores: np.ndarray, captions: list[str], owners: np.ndarray, given: argparse.Namespace):
    """For each thing: features of the first hits, whether they are right, whether it is there, and
    the size of the collection."""
    chance, found = np.random.default_rng(given.seed), {}
    count = scores.shape[1]
    for thing, pattern in THINGS.items():
        speaks = np.array([bool(re.search(pattern, text.lower())) for text in captions])
        shows = np.zeros(count, dtype=bool)
        shows[owners[speaks]] = True
        features, right, there, sizes = [], [], [], []
        for query in chance.permutation(np.flatnonzero(speaks))[: given.queries]:
            for size in given.sizes:
                for present in (True, False):
                    some = drawn(chance, shows, owners[query], min(size, count), present)
                    order = some[np.argsort(-scores[query, some])[:HITS]]
                    one = scores[query, order]
                    company = (one[:BEST].mean(), reach(len(some)))
                    features.append([(value, *company) for value in one])
                    right.append(shows[order] & present)
                    there.append(present)
                    sizes.append(size)
        found[thing] = (
            np.array(features), np.array(right, dtype=float), np.array(there), np.array(sizes)
        )  # fmt: skip
    return found


def drawn(
    chance: np.random.Generator, shows: np.ndarray, own: int, size: int, present: bool
) -> np.ndarray:
    """Pictures of a collection: without the thing, or with at least one that shows it, which is
    the caption's own half of the time."""
    if not present:
        return chance.permutation(np.flatnonzero(~shows))[:size]
    must = own if chance.random() < 0.5 else chance.choice(np.flatnonzero(shows))
    others = np.setdiff1d(np.arange(len(shows)), [must])
    return np.concatenate([[must], chance.permutation(others)[: size - 1]])


def judged(by_thing, plain: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Probability of the best hit, whether it is right, whether the thing is there, and sizes.

    `plain` is a size to fit on alone and without `reach`, as was done before.
    """
    chances, right, there, sizes = [], [], [], []
    for thing, (features, labels, present, size) in by_thing.items():
        xs, ys = [], []
        for name, (x, y, _, of) in by_thing.items():
            if name != thing:
                kept = (of == plain) | (not plain)
                xs.append(x[kept].reshape(-1, 3)[:, : 2 if plain else 3])
                ys.append(y[kept].ravel())
        bias, *weights = fit(np.concatenate(xs), np.concatenate(ys))
        logits = bias + features[:, 0, : len(weights)] @ np.array(weights)
        chances.append(1 / (1 + np.exp(-logits)))
        right.append(labels[:, 0])
        there.append(present)
        sizes.append(size)
    return tuple(np.concatenate(one) for one in (chances, right, there, sizes))


def area(high: np.ndarray, low: np.ndarray) -> float:
    """How often one of the first is above one of the second (ROC area)."""
    return float((high[:, None] > low[None]).mean() + (high[:, None] == low[None]).mean() / 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_run(parser)
    parser.add_argument("--queries", type=int, default=100, help="a thing")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[30, 60, 120, 200, 500, 1000], help="of collections"
    )
    parser.add_argument("--cutoff", type=float, default=0.4)
    parser.add_argument(
        "--shipped", action="store_true", help="judge one-word questions by the model's own numbers"
    )
    parser.add_argument("--write", action="store_true", help="calibration.json beside the model")
    given = parser.parse_args()
    model, _, collection, images, texts = encoded(given)
    alpha = model.architecture.similarity.alpha
    scores = similarity_matrix(texts, images, "smooth_chamfer", alpha=alpha).numpy()
    owners, captions = np.asarray(collection.owners), list(collection.captions)
    by_thing = rows(scores, captions, owners, given)
    found = {}
    for name, plain in (("before", max(given.sizes)), ("now", 0)):
        chances, right, there, sizes = judged(by_thing, plain)
        for size in given.sizes:
            here = sizes == size
            found[f"{name}, {size} pictures"] = told(
                name, size, chances[here], right[here], there[here], given.cutoff
            )

    features = np.concatenate([one[0].reshape(-1, 3) for one in by_thing.values()])
    labels = np.concatenate([one[1].ravel() for one in by_thing.values()])
    about = f"{collection.name}, {len(captions):,} captions, collections of {given.sizes}"
    fitted = Calibration(
        *fit(features, labels),
        cutoff=given.cutoff,
        fitted_on=about,
        fingerprint=model.fingerprint(),
    )
    with torch.no_grad():
        odd = model.encode_texts(list(STRANGE))
    strange = similarity_matrix(odd, images, "smooth_chamfer", alpha=alpha).numpy()
    items = strange.shape[1]
    best = np.array([fitted.probabilities(np.sort(one)[::-1][:HITS], items)[0] for one in strange])
    silent = float((best < given.cutoff).mean())
    print(f"strange queries answered with silence: {silent:.0%} of {len(best)}, of all pictures")
    short = nouns(model, images, captions, owners, _kept(model, given) or fitted)
    if given.write:
        fitted.save(model_folder(given.run))
    results = {"found": found, "strange_silent": silent, "nouns": short, "fitted": asdict(fitted)}
    print(json.dumps(results))


def nouns(
    model: Model, images: torch.Tensor, captions: list[str], owners: np.ndarray, judge: Calibration
) -> dict[str, float]:
    """Of one-word questions: how many are answered whose thing two pictures or more show, and how
    many whose word no caption has."""
    said: dict[int, str] = {}
    for text, owner in zip(captions, owners.tolist(), strict=True):
        said[owner] = f"{said.get(owner, '')} {text.lower()}"
    shown = {
        noun: [bool(re.search(rf"\b{noun}s?\b", text)) for _, text in sorted(said.items())]
        for noun in NOUNS
    }
    there = [noun for noun in NOUNS if sum(shown[noun]) > 1]
    absent = [noun for noun in NOUNS if not any(noun in text for text in said.values())]
    alpha = model.architecture.similarity.alpha
    found: dict[str, float] = {"there": len(there), "absent": len(absent)}
    for name, some in (("there", there), ("absent", absent)):
        sets = model.encode_texts(some)
        scores = similarity_matrix(sets, images, "smooth_chamfer", alpha=alpha).numpy()
        ranked = np.sort(scores, axis=1)[:, ::-1][:, :HITS]
        likely = [judge.probabilities(one, scores.shape[1]) for one in ranked]
        found[f"{name}_answered"] = float(
            np.mean([one[0] >= judge.cutoff_for(one) for one in likely])
        )
        if name == "there":
            right = [shown[noun][int(one.argmax())] for noun, one in zip(some, scores, strict=True)]
            found["best_hit_right"] = float(np.mean(right))
    print(f"one-word questions: {found}")
    return found


def _kept(model: Model, given: argparse.Namespace) -> Calibration | None:
    return load_calibration(model_folder(given.run), model.fingerprint()) if given.shipped else None


def told(
    name: str, size: int, chances: np.ndarray, right: np.ndarray, there: np.ndarray, cutoff: float
) -> dict[str, object]:
    """Print and return what probabilities of one kind are worth in collections of one size."""
    roc = area(chances[there], chances[~there])
    brier = float(((chances - right) ** 2).mean())
    print(f"\n{name}, {size} pictures: {len(chances):,} queries, half of them of what is not there")
    print(f"area under ROC {roc:.3f}, Brier score {brier:.3f}")
    print("answered | of what is there | risk: best hit wrong | nothing said though not there")
    curve = []
    for share in (0.1, 0.3, 0.5, 0.7, 1.0):
        curve.append(_point(chances, right, there, np.quantile(chances, 1 - share)))
        print(
            "{answered:8.0%} | {coverage:16.0%} | {risk:20.0%} | {silent:8.0%}".format(**curve[-1])
        )
    chosen = _point(chances, right, there, cutoff)
    print(f"cut-off {cutoff}:", {key: round(value, 3) for key, value in chosen.items()})
    bins = np.digitize(chances, np.linspace(0, 1, 6)[1:-1])
    said = [
        (chances[bins == place].mean(), right[bins == place].mean(), (bins == place).sum())
        for place in range(5)
        if (bins == place).any()
    ]
    print("said and right:", ", ".join(f"{a:.2f} {b:.2f} ({count})" for a, b, count in said))
    return {"area": roc, "brier": brier, "cutoff": chosen, "curve": curve}


def _point(
    chances: np.ndarray, right: np.ndarray, there: np.ndarray, least: float
) -> dict[str, float]:
    answered = chances >= least
    return {
        "answered": float(answered.mean()),
        "coverage": float(answered[there].mean()),
        "risk": float(1 - right[answered].mean()) if answered.any() else 0.0,
        "silent": float((~answered[~there]).mean()),
    }


if __name__ == "__main__":
    main()
