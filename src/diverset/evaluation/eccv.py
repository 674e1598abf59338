"""ECCV Caption and CxC: COCO's test split with additional annotated matches.

Annotations and metrics come from the package eccv_caption (extra `eccv`), which includes its data:
R-Precision and mAP@R on ECCV Caption, recalls on ECCV Caption, CxC and COCO 5K. It gets only as
many items of each ranking as its metrics read. COCO 1K would need whole rankings; use
`evaluate_sets(..., protocol="coco_1k")`. The sets have to be those of COCO's 5,000 test images
and 25,000 captions, or of a part of them; see `diverset.evaluation.annotated`.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diverset.errors import DataError, import_extra
from diverset.evaluation.annotated import annotated_captions, check_images, restrict, share
from diverset.evaluation.ensemble import Member, check_members
from diverset.evaluation.recall import LEVELS
from diverset.evaluation.top import Top, top_ranked

Ids = Sequence[str] | Sequence[int] | NDArray[np.int64]
BENCHMARKS = {"eccv_gts": "ECCV Caption", "cxc_gts": "CxC", "coco_gts": "COCO 5K"}
"""Attribute of the package's metrics -> the benchmark whose matches it holds."""


@dataclass(frozen=True)
class EccvScores:
    """The scores and the part of the benchmark that they are measured on.

    Attributes:
        metrics: {"i2t": ..., "t2i": ...} in percent for `eccv_map_at_r`, `eccv_rprecision`, and
            R@1, R@5, R@10 as `eccv_r1`, `cxc_r5`, `coco_5k_r10` and so on.
        coverage: images, captions and queries that are there, e.g. "4,407 of 5,000".
    """

    metrics: dict[str, dict[str, float]]
    coverage: dict[str, str | dict[str, str]]


def eccv_scores(members: Sequence[Member], image_ids: Ids, caption_ids: Ids) -> EccvScores:
    """Score one model, or the mean of several, on ECCV Caption, CxC and COCO 5K.

    Ids are COCO's, as numbers or strings. Captions that are not annotated (the sixth captions of
    ten images) are left out.
    """
    metrics = _annotations()
    check_members(members)
    images = _numbers("image", image_ids, len(members[0].images))
    captions = _numbers("caption", caption_ids, len(members[0].texts))
    check_images(images, metrics.coco_gts["i2t"])
    members, captions = annotated_captions(members, captions, metrics.coco_gts["t2i"])
    coverage = _restrict(metrics, images, captions)
    top = top_ranked(members, texts=_depth(metrics, "i2t"), images=_depth(metrics, "t2i"))
    return EccvScores(_scores(metrics, top, np.array(images), np.array(captions)), coverage)


def _annotations() -> Any:
    with warnings.catch_warnings():
        # It warns if ujson or tqdm are missing, which it does not need.
        warnings.simplefilter("ignore")
        return import_extra("eccv_caption", "eccv").Metrics()


def _numbers(kind: str, ids: Ids, count: int) -> list[int]:
    if len(ids) != count:
        raise DataError(f"{len(ids)} {kind} ids for {count} {kind}s; give one per {kind}")
    try:
        return [int(id_) for id_ in ids]
    except ValueError as error:
        raise DataError(
            f"the {kind} ids are not COCO's numbers ({error}); read the split with the ids of "
            "dataset_coco.json or captions_val2014.json"
        ) from error


def _restrict(
    metrics: Any, images: Sequence[int], captions: Sequence[int]
) -> dict[str, str | dict[str, str]]:
    """Restrict the matches of all benchmarks to these items; returns what is left of them."""
    all_images, all_captions = metrics.coco_gts["i2t"], metrics.coco_gts["t2i"]
    # Not the items that are there: a few matches of ECCV Caption are not in COCO 5K, and count.
    missing_images = all_images.keys() - set(images)
    missing_captions = all_captions.keys() - set(captions)
    coverage: dict[str, str | dict[str, str]] = {
        "images": share(images, all_images),
        "captions": share(captions, all_captions),
    }
    for attribute, name in BENCHMARKS.items():
        whole = getattr(metrics, attribute)
        part = {
            "i2t": restrict(whole["i2t"], images, missing_captions),
            "t2i": restrict(whole["t2i"], captions, missing_images),
        }
        setattr(metrics, attribute, part)
        coverage[f"{name} queries"] = {side: share(part[side], whole[side]) for side in part}
    return coverage


def _depth(metrics: Any, direction: str) -> int:
    """The number of ranked items the metrics read: the largest number of matches of a query."""
    matches = max(len(items) for items in metrics.eccv_gts[direction].values())
    return max(matches, *LEVELS)


def _scores(
    metrics: Any, top: Top, images: NDArray[np.int64], captions: NDArray[np.int64]
) -> dict[str, dict[str, float]]:
    retrieved = {
        "i2t": dict(zip(images.tolist(), captions[top.image_to_text].tolist(), strict=True)),
        "t2i": dict(zip(captions.tolist(), images[top.text_to_image].tolist(), strict=True)),
    }
    with contextlib.redirect_stderr(io.StringIO()):  # its progress bar cannot be disabled
        # All metrics at once: requesting R-Precision alone returns nothing.
        scores = dict(metrics.eccv_metrics(retrieved, "all"))
    for level in LEVELS:
        scores[f"eccv_r{level}"] = metrics.eccv_recalls(retrieved, "all", K=level)
        scores[f"cxc_r{level}"] = metrics.cxc_recalls(retrieved, "all", K=level)
        scores[f"coco_5k_r{level}"] = metrics.coco_5k_recalls(retrieved, "all", K=level)
    return {
        name: {direction: 100 * float(value) for direction, value in both.items()}
        for name, both in scores.items()
    }
