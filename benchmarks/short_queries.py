"""Object names as queries: do sets, or a similarity of one direction, help short texts?

Every object name is a query; images labelled with that object are relevant. A short text names one
thing of an image, so the half of smooth-Chamfer that asks whether each image element matches the
text may only add noise. Compared: smooth-Chamfer, its half over the text elements, and coverage
(the text element that matches least). Prints mAP and precision at 10 in percent, and the difference
to smooth-Chamfer with a 95 % interval over object names; ends with JSON.

    python benchmarks/short_queries.py photos --data coco --labels labels.tsv.gz --split val_more
"""

import argparse
import json

import numpy as np
import torch
from splits import encoded

from diverset.evaluation.objects import ObjectReport, read_labels, relevance, score_objects
from diverset.photos.search.scoring import coverage, weighted_smooth_chamfer

SAMPLES = 2000


def text_half(cosines: np.ndarray, alpha: float) -> np.ndarray:
    """Half of smooth-Chamfer: the soft maximum over image elements, averaged over text elements."""
    return (np.log(np.exp(alpha * cosines).sum(axis=2)) / alpha).mean(axis=1)


def score_all(images: torch.Tensor, texts: torch.Tensor, alpha: float) -> dict[str, np.ndarray]:
    """Scores (names, images) by the name of the similarity."""
    rows: dict[str, list[np.ndarray]] = {"smooth-Chamfer": [], "text half": [], "coverage": []}
    for text in texts.double():
        cosines = torch.einsum("kd,nld->nkl", text, images.double()).numpy()
        rows["smooth-Chamfer"].append(weighted_smooth_chamfer(cosines, alpha))
        rows["text half"].append(text_half(cosines, alpha))
        rows["coverage"].append(coverage(cosines))
    return {name: np.stack(scores) for name, scores in rows.items()}


def average_precisions(report: ObjectReport) -> np.ndarray:
    return np.array([scores.average_precision for scores in report.objects.values()])


def interval(differences: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """95 % interval of the mean difference, in percent, over random object names."""
    drawn = rng.choice(differences, (SAMPLES, len(differences))).mean(axis=1)
    low, high = np.quantile(100 * drawn, [0.025, 0.975])
    return round(float(low), 2), round(float(high), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="+", help="models or runs; the first is the reference")
    parser.add_argument("--data", required=True, help="folder of the data")
    parser.add_argument("--labels", required=True, help="TSV of image ids and objects")
    parser.add_argument("--split", default="val", help="(default: val)")
    parser.add_argument("--limit", type=int, help="only this many images, for a quick run")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    labels = read_labels(args.labels)
    summary: dict[str, dict[str, dict[str, object]]] = {}
    first: np.ndarray | None = None
    for path in args.models:
        options = argparse.Namespace(run=path, data=args.data, split=args.split, limit=args.limit)
        model, _, dataset, images, _ = encoded(options)
        names, relevant, labelled = relevance(dataset.image_ids, labels)
        alpha = model.config.similarity.alpha
        scores = score_all(images[torch.from_numpy(labelled)], model.encode_texts(names), alpha)
        own: np.ndarray | None = None
        summary[path] = {}
        for similarity, values in scores.items():
            report = score_objects(names, values, relevant)
            found = average_precisions(report)
            own, first = found if own is None else own, found if first is None else first
            row = {
                "mAP": round(100 * report.mean_average_precision, 1),
                "P@10": round(100 * report.precision_at_10, 1),
                "mAP minus smooth-Chamfer": interval(found - own, rng),
                "mAP minus first model": interval(found - first, rng),
            }
            summary[path][similarity] = row
            print(f"{path}, {similarity}: {row}", flush=True)
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
