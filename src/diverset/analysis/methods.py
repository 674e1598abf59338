"""The methods of Tab. 1 and 2 as rows: each under the recipe's own backbones, data and schedule.

A method is what makes its sets, how they are compared and its loss. Where a recipe of its own lies
beside the one that is reproduced (flickr8k_pvse.yaml), that is taken instead. The paper's figures
are here too; numbers of ours are not.
"""

from __future__ import annotations

from typing import Any

from diverset.analysis.rows import Row, both_sets
from diverset.training.settings import Recipe

OURS, CONTROL = "ours (sets)", "ours, K = 1"
NO_REGULARIZERS = {"loss.mmd": 0.0, "loss.diversity": 0.0}

# Image-to-text R@1, R@5, R@10, text-to-image R@1, R@5, R@10, RSUM. Ensembles of two are marked +.
PAPER: dict[str, dict[str, dict[str, tuple[float, ...]]]] = {
    "Flickr30K": {
        "VSE++": {"ResNet-152": (52.9, 80.5, 87.2, 39.6, 70.1, 79.5, 409.8)},
        "PVSE": {"ResNet-152": (59.1, 84.5, 91.0, 43.4, 73.1, 81.5, 432.6)},
        "PCME": {"ResNet-152": (58.5, 81.4, 89.3, 44.3, 72.7, 81.9, 428.1)},
        "SCAN": {"regions, +": (67.4, 90.3, 95.8, 48.6, 77.7, 85.2, 465.0)},
        "VSE-infinity": {
            "regions": (76.5, 94.2, 97.7, 56.4, 83.4, 89.9, 498.1),
            "ResNeXt-101": (88.4, 98.3, 99.5, 74.2, 93.7, 96.8, 550.9),
            "ResNeXt-101, +": (88.7, 98.9, 99.8, 76.1, 94.5, 97.1, 555.1),
        },
        OURS: {
            "ResNet-152": (61.8, 85.5, 91.1, 46.1, 74.8, 83.3, 442.6),
            "regions": (77.8, 94.0, 97.5, 57.5, 84.0, 90.0, 500.8),
            "regions, +": (80.9, 94.7, 97.6, 59.4, 85.6, 91.1, 509.3),
            "ResNeXt-101": (88.8, 98.5, 99.6, 74.3, 94.0, 96.7, 551.9),
            "ResNeXt-101, +": (90.6, 99.0, 99.6, 75.9, 94.7, 97.3, 557.1),
        },
    },
    "COCO 5K": {
        "VSE++": {"ResNet-152": (41.3, 71.1, 81.2, 30.3, 59.4, 72.4, 355.7)},
        "PVSE": {"ResNet-152": (45.2, 74.3, 84.5, 32.4, 63.0, 75.0, 374.4)},
        "SCAN": {"regions, +": (50.4, 82.2, 90.0, 38.6, 69.3, 80.4, 410.9)},
        "VSE-infinity": {
            "regions": (56.6, 83.6, 91.4, 39.3, 69.9, 81.1, 421.9),
            "ResNeXt-101": (66.4, 89.3, 94.6, 51.6, 79.3, 87.6, 468.9),
            "ResNeXt-101, +": (68.1, 90.2, 95.2, 52.7, 80.2, 88.3, 474.8),
        },
        OURS: {
            "ResNet-152": (47.2, 74.8, 84.1, 33.8, 63.1, 74.7, 377.7),
            "regions": (58.8, 84.9, 91.5, 41.1, 72.0, 82.4, 430.7),
            "regions, +": (60.4, 86.2, 92.4, 42.6, 73.1, 83.1, 437.8),
            "ResNeXt-101": (69.1, 90.7, 95.6, 52.1, 79.6, 87.8, 474.9),
            "ResNeXt-101, +": (71.0, 91.8, 96.3, 53.4, 80.9, 88.6, 482.0),
        },
    },
}


def methods(recipe: Recipe) -> tuple[Row, ...]:
    """All methods under a recipe."""
    words = recipe.model.text.kind == "bigru"
    average: dict[str, Any] = {"model.image.pooling": "average", "model.text.pooling": "average"}
    if words:  # VSE++ reads forward only and takes the last state
        average |= {"model.text.pooling": "last", "model.text.bidirectional": False}
    gpo = {"model.image.pooling": "gpo", "model.text.pooling": "gpo"}
    single = both_sets(kind="pooled", size=1) | NO_REGULARIZERS
    return (
        Row("VSE++", single | average, sibling="vsepp"),
        Row("VSE-infinity", single | gpo, sibling="vse_infinity"),
        Row(
            "PVSE",
            both_sets(kind="pie_net", size=2)
            | {
                "model.similarity.kind": "mil",
                "loss.margin": 0.1,
                "loss.mmd": 0.01,
                "loss.diversity": 0.0,
                "loss.gram_diversity": 0.1,
            },
            sibling="pvse",
        ),
        Row(
            "PCME",
            both_sets(kind="gaussian", size=7)
            | NO_REGULARIZERS
            | {
                "model.similarity.kind": "match_probability",
                "loss.kind": "soft_contrastive",
                "loss.bottleneck": 1e-5,
                "loss.contrastive": 0.0,
                "loss.start": "none",
                "loss.start_epochs": 0,
            },
            sibling="pcme",
        ),
        scan_row(recipe),
        Row(CONTROL, both_sets(size=1)),
        Row(OURS),
    )


def scan_row(recipe: Recipe) -> Row:
    """SCAN: all local features, one caption an image, smaller batches for its memory."""
    local = {"model.text.local": "states"} if recipe.model.text.kind == "bigru" else {}
    changes = {
        **both_sets(kind="local"),
        **NO_REGULARIZERS,
        **local,
        "model.similarity.kind": "scan",
        "train.batch_size": min(64, recipe.train.batch_size),
        "train.captions": 1,
        "train.evaluate_every": max(2, recipe.train.evaluate_every),  # minutes each
    }
    return Row("SCAN", changes, sibling="scan")
