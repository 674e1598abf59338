"""How often is the tool right when it says that nothing matches well?

Queries are captions that speak of a thing (a dog, a bicycle, snow), asked twice: of all pictures,
and of those that are left when every picture with the thing in one of its captions is taken out.
A hit is right if one of its captions speaks of the thing. The logistic is fitted on the other
things, so that it has not seen the one it judges; the last line is the fit over all.

    python benchmarks/no_match.py RUN --data path/to/flickr8k --write
"""

import argparse
import json
import re
from dataclasses import replace

import numpy as np
import torch

from diverset.loading import model_folder
from diverset.search.calibration import BEST, Calibration, fit
from diverset.similarity import similarity_matrix
from diverset.training.encoding import encode_split
from diverset.training.evaluating import default_cache, open_run
from diverset.training.opening import open_split

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
HITS = 10


def rows(scores: np.ndarray, captions: list[str], owners: np.ndarray, most: int, seed: int):
    """For each thing: features of the first hits, whether they are right, whether it is there."""
    chance, found = np.random.default_rng(seed), {}
    for thing, pattern in THINGS.items():
        speaks = np.array([bool(re.search(pattern, text.lower())) for text in captions])
        shows = np.zeros(scores.shape[1], dtype=bool)
        shows[owners[speaks]] = True
        features, right, there = [], [], []
        for query in chance.permutation(np.flatnonzero(speaks))[:most]:
            for present in (True, False):
                one = np.where(shows & (not present), -np.inf, scores[query])
                order = np.argsort(-one)[:HITS]
                background = one[order[:BEST]].mean()
                features.append([(value, background) for value in one[order]])
                right.append(shows[order] & present)
                there.append(present)
        found[thing] = (np.array(features), np.array(right, dtype=float), np.array(there))
    return found


def judged(by_thing) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probability of the best hit, whether it is right, whether the thing is there."""
    chances, right, there = [], [], []
    for thing, (features, labels, present) in by_thing.items():
        others = [by_thing[name] for name in by_thing if name != thing]
        fitted = fit(
            np.concatenate([one[0].reshape(-1, 2) for one in others]),
            np.concatenate([one[1].ravel() for one in others]),
        )
        bias, score, best = fitted
        logits = bias + features[..., 0] * score + features[..., 1] * best
        chances.append(1 / (1 + np.exp(-logits[:, 0])))
        right.append(labels[:, 0])
        there.append(present)
    return np.concatenate(chances), np.concatenate(right), np.concatenate(there)


def area(high: np.ndarray, low: np.ndarray) -> float:
    """How often one of the first is above one of the second (ROC area)."""
    return float((high[:, None] > low[None]).mean() + (high[:, None] == low[None]).mean() / 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run")
    parser.add_argument("--data", default="", help="folder of the data, if it has moved")
    parser.add_argument("--split", default="val")
    parser.add_argument("--queries", type=int, default=100, help="a thing")
    parser.add_argument("--cutoff", type=float, default=0.4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="calibration.json beside the model")
    given = parser.parse_args()
    model, data = open_run(given.run)
    data = replace(data, root=given.data) if given.data else data
    split = open_split(
        data, given.split, model.architecture, model.vocabulary, default_cache(), model=model
    )
    images, texts = encode_split(model, split)
    alpha = model.architecture.similarity.alpha
    scores = similarity_matrix(texts, images, "smooth_chamfer", alpha=alpha).numpy()
    owners, captions = np.asarray(split.collection.owners), list(split.collection.captions)
    by_thing = rows(scores, captions, owners, given.queries, given.seed)
    chances, right, there = judged(by_thing)

    print(f"{len(chances):,} queries, half of them of things that are not there, {given.split}")
    print(f"there against not there, area under ROC: {area(chances[there], chances[~there]):.3f}")
    print("answered | of what is there | risk: best hit wrong | nothing said though not there")
    curve = []
    for share in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        least = np.quantile(chances, 1 - share)
        curve.append(_point(chances, right, there, least))
        print(
            "{answered:8.0%} | {coverage:16.0%} | {risk:20.0%} | {silent:8.0%}".format(**curve[-1])
        )
    chosen = _point(chances, right, there, given.cutoff)
    print(f"cut-off {given.cutoff}: {chosen}")
    bins = np.digitize(chances, np.linspace(0, 1, 6)[1:-1])
    for place in range(5):
        inside = bins == place
        if inside.any():
            said, true = chances[inside].mean(), right[inside].mean()
            print(f"said {said:.2f}, right {true:.2f}, {inside.sum()} queries")

    features = np.concatenate([one[0].reshape(-1, 2) for one in by_thing.values()])
    labels = np.concatenate([one[1].ravel() for one in by_thing.values()])
    about = f"{split.collection.name}, {len(captions):,} captions, seed {given.seed}"
    fitted = Calibration(*fit(features, labels), cutoff=given.cutoff, fitted_on=about)
    with torch.no_grad():
        odd = model.encode_texts(list(STRANGE))
    strange = similarity_matrix(odd, images, "smooth_chamfer", alpha=alpha).numpy()
    best = np.array([fitted.probabilities(np.sort(one)[::-1][:HITS])[0] for one in strange])
    zs = [(one.max(axis=1) - one.mean(axis=1)) / one.std(axis=1) for one in (scores, strange)]
    print(
        f"strange queries answered with silence: {(best < given.cutoff).mean():.0%} of {len(best)}"
    )
    if given.write:
        fitted.save(model_folder(given.run))
    print(
        json.dumps(
            {
                "area": area(chances[there], chances[~there]),
                "area_of_z_scores_strange": area(*zs),
                "brier": float(((chances - right) ** 2).mean()),
                "cutoff": chosen,
                "strange_silent": float((best < given.cutoff).mean()),
                "curve": curve,
                "bias": fitted.bias,
                "score": fitted.score,
                "best": fitted.best,
            }
        )
    )


def _point(
    chances: np.ndarray, right: np.ndarray, there: np.ndarray, least: float
) -> dict[str, float]:
    answered = chances >= least
    return {
        "answered": float(answered.mean()),
        "coverage": float(answered[there].mean()),
        "risk": float(1 - right[answered].mean()),
        "silent": float((~answered[~there]).mean()),
    }


if __name__ == "__main__":
    main()
