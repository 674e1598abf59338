"""ECCV Caption and CxC: COCO's test split judged with the matches that COCO does not list.

Annotations and metrics are those of the package eccv_caption (extra `eccv`), which brings its
data along: R-Precision and mAP@R on ECCV Caption, recalls on ECCV Caption, CxC and COCO 5K. It
is given only as many items of each ranking as it looks at. COCO 1K, for which it would need
whole rankings, is `evaluate_sets(..., protocol="coco_1k")`. This module does not know how sets
are made; they have to be those of COCO's 5,000 test images and 25,000 captions.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from diverset.errors import DataError, a_few, import_extra
from diverset.evaluation.members import Member, check_members
from diverset.evaluation.recall import LEVELS
from diverset.evaluation.top import Top, top_ranked
from diverset.similarity import MAX_MEMORY

Ids = Sequence[str] | Sequence[int] | NDArray[np.int64]
Scores = dict[str, dict[str, float]]


def eccv_scores(
    members: Sequence[Member],
    image_ids: Ids,
    caption_ids: Ids,
    *,
    max_memory: int = MAX_MEMORY,
    device: torch.device | str | None = None,
) -> Scores:
    """Score one model, or the mean of several, on ECCV Caption, CxC and COCO 5K.

    Args:
        members: the sets of COCO's test images and captions.
        image_ids: COCO's id of each image, as numbers or digits.
        caption_ids: COCO's id of each caption.
        max_memory: bytes that may be used above the inputs.
        device: where to compute.

    Returns:
        For each metric {"i2t": ..., "t2i": ...}, as fractions of one: `eccv_map_at_r`,
        `eccv_rprecision`, and R@1, R@5, R@10 as `eccv_r1`, `cxc_r5`, `coco_5k_r10` and so on.
        `in_percent` makes percentages of them.
    """
    metrics = _annotations()
    check_members(members)
    images = _numbers("image", image_ids, len(members[0].images), metrics.coco_gts["i2t"])
    captions = _numbers("caption", caption_ids, len(members[0].texts), metrics.coco_gts["t2i"])
    top = top_ranked(
        members,
        texts=_depth(metrics, "i2t"),
        images=_depth(metrics, "t2i"),
        max_memory=max_memory,
        device=device,
    )
    return _scores(metrics, top, images, captions)


def in_percent(scores: Mapping[str, Mapping[str, float]]) -> Scores:
    """The same scores in percent, e.g. for the extras of a report.

    >>> in_percent({"eccv_r1": {"i2t": 0.5, "t2i": 0.25}})
    {'eccv_r1': {'i2t': 50.0, 't2i': 25.0}}
    """
    return {
        name: {direction: 100 * value for direction, value in both.items()}
        for name, both in scores.items()
    }


def _annotations() -> Any:
    with warnings.catch_warnings():
        # It warns where ujson or tqdm are missing, which only make it faster or chattier.
        warnings.simplefilter("ignore")
        return import_extra("eccv_caption", "eccv").Metrics()


def _depth(metrics: Any, direction: str) -> int:
    """How far down a ranking the metrics look: the most matches that any query has."""
    most = max(len(set(items)) for items in metrics.eccv_gts[direction].values())
    return max(most, *LEVELS)


def _numbers(what: str, ids: Ids, count: int, known: Mapping[int, Any]) -> NDArray[np.int64]:
    if len(ids) != count:
        raise DataError(f"{len(ids)} {what} ids for {count} {what}s; give one a {what}")
    try:
        found = np.array([int(one) for one in ids], dtype=np.int64)
    except ValueError as error:
        raise DataError(
            f"the {what} ids are not COCO's numbers ({error}); read the split with the ids of "
            "dataset_coco.json or captions_val2014.json"
        ) from error
    foreign = [one for one in found.tolist() if one not in known]
    missing = sorted(set(known) - set(found.tolist()))
    if foreign or missing or len(found) != len(known):
        raise DataError(
            f"the {what}s are not the {len(known)} of COCO's test split: "
            f"{len(missing)} missing ({a_few(missing)}), {len(foreign)} foreign "
            f"({a_few(foreign)}), {len(found)} given; evaluate the whole Karpathy test split"
        )
    return found


def _scores(
    metrics: Any, top: Top, images: NDArray[np.int64], captions: NDArray[np.int64]
) -> Scores:
    retrieved = {
        "i2t": dict(zip(images.tolist(), captions[top.image_to_text].tolist(), strict=True)),
        "t2i": dict(zip(captions.tolist(), images[top.text_to_image].tolist(), strict=True)),
    }
    with contextlib.redirect_stderr(io.StringIO()):  # a progress bar that cannot be turned off
        # All three at once: its front door returns nothing when asked for R-Precision alone.
        found = dict(metrics.eccv_metrics(retrieved, "all"))
    for level in LEVELS:
        found[f"eccv_r{level}"] = metrics.eccv_recalls(retrieved, "all", K=level)
        found[f"cxc_r{level}"] = metrics.cxc_recalls(retrieved, "all", K=level)
        found[f"coco_5k_r{level}"] = metrics.coco_5k_recalls(retrieved, "all", K=level)
    return {
        name: {direction: float(value) for direction, value in both.items()}
        for name, both in found.items()
    }
