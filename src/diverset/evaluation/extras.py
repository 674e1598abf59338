"""Measurements besides recalls: hubness correction, ECCV Caption, CxC, object names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from diverset.errors import DataError
from diverset.evaluation.cxc import cxc_scores, read_cxc
from diverset.evaluation.eccv import eccv_scores
from diverset.evaluation.elements import select_elements
from diverset.evaluation.encoded import EncodedModel
from diverset.evaluation.hubness import correction_summary, evaluate_corrected
from diverset.evaluation.objects import read_labels, relevance, score_objects
from diverset.evaluation.options import EvalOptions
from diverset.similarity import similarity_matrix

ECCV_SCORES = "ECCV Caption, CxC, COCO 5K (percent)"
ECCV_COVERAGE = "measured on this part of COCO's test split"


def additional_measurements(
    encoded: Sequence[EncodedModel], options: EvalOptions
) -> dict[str, Any]:
    """What the options ask for besides recalls, by the name of the measurement."""
    dataset, members = encoded[0].dataset, [model.member for model in encoded]
    extras: dict[str, Any] = {}
    if options.hubness:
        banks = [model.bank for model in encoded if model.bank is not None]
        corrected = evaluate_corrected(members, banks, dataset.image_index, options.protocol)
        extras["with hubness correction"] = correction_summary(corrected, banks)
    if options.eccv:
        if dataset.caption_ids is None:
            raise DataError(f"{dataset.name} has no caption ids, which ECCV Caption needs")
        scores = eccv_scores(members, dataset.image_ids, dataset.caption_ids)
        extras[ECCV_SCORES] = scores.metrics
        extras[ECCV_COVERAGE] = scores.coverage
    if options.cxc:
        annotations = read_cxc(options.cxc)
        extras["CxC (percent)"] = cxc_scores(
            members, annotations, dataset.image_ids, dataset.caption_ids
        )
    if options.objects:
        extras["object names as queries (percent)"] = _object_scores(encoded, options)
    return extras


def _object_scores(encoded: Sequence[EncodedModel], options: EvalOptions) -> dict[str, float]:
    """mAP and P@10 of object names as queries, over the labelled images of the split."""
    labels = read_labels(options.objects or "")
    names, relevant, labelled = relevance(encoded[0].dataset.image_ids, labels)
    scores = []
    for model, member in ((each.model, each.member) for each in encoded):
        queries = model.encode_texts(names, precision=options.precision)
        queries = select_elements(queries, options.text_elements)
        images = member.images[torch.from_numpy(labelled)]
        scores.append(similarity_matrix(images, queries, member.similarity, **member.options))
    result = score_objects(torch.stack(scores).mean(dim=0).T.cpu().numpy(), relevant)
    percent = {"mAP": 100 * result.mean_average_precision, "P@10": 100 * result.precision_at_10}
    return {**percent, "objects": len(names), "labelled images": len(labelled)}
