"""The numbers of Tab. 1 and 2 by dataset, method and setting.

The paper lists NAAF under "Faster R-CNN + Bi-GRU"; its row is NAAF's ensemble with GloVe vectors.
According to NAAF's authors, the ensemble with words learned from scratch reaches an RSUM of 501.3
on Flickr30K and 524.0 on COCO 1K.
"""

from __future__ import annotations

OURS = "ours (sets)"

# Image-to-text R@1, R@5, R@10, text-to-image R@1, R@5, R@10, RSUM; None where the paper has none.
# Ensembles of two are marked +.
PAPER: dict[str, dict[str, dict[str, tuple[float | None, ...]]]] = {
    "Flickr30K": {
        "VSE++": {"ResNet-152": (52.9, 80.5, 87.2, 39.6, 70.1, 79.5, 409.8)},
        "PVSE": {"ResNet-152": (59.1, 84.5, 91.0, 43.4, 73.1, 81.5, 432.6)},
        "PCME": {"ResNet-152": (58.5, 81.4, 89.3, 44.3, 72.7, 81.9, 428.1)},
        "SCAN": {"regions, +": (67.4, 90.3, 95.8, 48.6, 77.7, 85.2, 465.0)},
        "VSRN": {"regions, +": (71.3, 90.6, 96.0, 54.7, 81.8, 88.2, 482.6)},
        "CAAN": {"regions": (70.1, 91.6, 97.2, 52.8, 79.0, 87.9, 478.6)},
        "IMRAM": {"regions, +": (74.1, 93.0, 96.6, 53.9, 79.4, 87.2, 484.2)},
        "SGRAF": {"regions, +": (77.8, 94.1, 97.4, 58.5, 83.0, 88.8, 499.6)},
        "VSE-infinity": {
            "regions": (76.5, 94.2, 97.7, 56.4, 83.4, 89.9, 498.1),
            "ResNeXt-101": (88.4, 98.3, 99.5, 74.2, 93.7, 96.8, 550.9),
            "ResNeXt-101, +": (88.7, 98.9, 99.8, 76.1, 94.5, 97.1, 555.1),
        },
        "NAAF": {"regions, GloVe, +": (81.9, 96.1, 98.3, 61.0, 85.3, 90.6, 513.2)},
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
        "PCME": {"ResNet-152": (44.2, None, None, 31.9, None, None, None)},
        "SCAN": {"regions, +": (50.4, 82.2, 90.0, 38.6, 69.3, 80.4, 410.9)},
        "VSRN": {"regions, +": (53.0, 81.1, 89.4, 40.5, 70.6, 81.1, 415.7)},
        "CAAN": {"regions": (52.5, 83.3, 90.9, 41.2, 70.3, 82.9, 421.1)},
        "IMRAM": {"regions, +": (53.7, 83.2, 91.0, 39.7, 69.1, 79.8, 416.5)},
        "SGRAF": {"regions, +": (57.8, None, 91.6, 41.9, None, 81.3, None)},
        "VSE-infinity": {
            "regions": (56.6, 83.6, 91.4, 39.3, 69.9, 81.1, 421.9),
            "ResNeXt-101": (66.4, 89.3, 94.6, 51.6, 79.3, 87.6, 468.9),
            "ResNeXt-101, +": (68.1, 90.2, 95.2, 52.7, 80.2, 88.3, 474.8),
        },
        "NAAF": {"regions, GloVe, +": (58.9, 85.2, 92.0, 42.5, 70.9, 81.4, 430.9)},
        OURS: {
            "ResNet-152": (47.2, 74.8, 84.1, 33.8, 63.1, 74.7, 377.7),
            "regions": (58.8, 84.9, 91.5, 41.1, 72.0, 82.4, 430.7),
            "regions, +": (60.4, 86.2, 92.4, 42.6, 73.1, 83.1, 437.8),
            "ResNeXt-101": (69.1, 90.7, 95.6, 52.1, 79.6, 87.8, 474.9),
            "ResNeXt-101, +": (71.0, 91.8, 96.3, 53.4, 80.9, 88.6, 482.0),
        },
    },
}
