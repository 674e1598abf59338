"""Everything the report shows: computed once from the two trained runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from diverset.evaluation import Report
from diverset.evaluation.bootstrap import Comparison
from diverset.evaluation.options import EvalOptions
from diverset.evaluation.run import compare
from diverset.model.slot_maps import slot_maps
from diverset.recipe.encode import IMAGE_BATCH
from diverset.reproduce.demo.matches import Box, points_into, slot_shares
from diverset.reproduce.demo.recipe import CONTROL, SETS
from diverset.reproduce.demo.showcase import Showcase, found_first, showcase
from diverset.reproduce.encoded_split import EncodedSplit, encode_run
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.runs import Run
from diverset.reproduce.scenes import SCENES_FILE


@dataclass(frozen=True)
class DemoResult:
    """The two models on the test scenes.

    Attributes:
        reports: recalls by the name of the model.
        comparison: sets against one vector, by paired bootstrap.
        showcases: the showcased queries by the name of the model.
        encoded: the model with sets, and its sets of the test scenes.
        boxes: for every test scene the boxes of its situations, in the order of its captions.
        maps: for every test scene what each slot attends to.
    """

    reports: Mapping[str, Report]
    comparison: Comparison
    showcases: Mapping[str, list[Showcase]]
    encoded: EncodedSplit
    boxes: list[list[Box]]
    maps: Tensor

    @property
    def showcase_line(self) -> str:
        """How many showcased queries each model answers right."""
        counts = [f"{name} {found_first(queries)}" for name, queries in self.showcases.items()]
        total = len(self.showcases[SETS])
        return f"showcased queries with the right image first, of {total}: {', '.join(counts)}"

    def pointing(self) -> float:
        """Share of captions whose slot attends most to a cell inside the described situation."""
        encoded, hits = self.encoded, []
        alpha = encoded.model.config.similarity.alpha
        for image, captions in enumerate(encoded.split.by_image):
            for caption, box in zip(captions.tolist(), self.boxes[image], strict=True):
                shares = slot_shares(encoded.images[image], encoded.texts[caption], alpha)
                hits.append(points_into(self.maps[image, int(shares.argmax())], box))
        return fmean(hits)

    def chance(self) -> float:
        """Share of the image that a box covers: `pointing` of a random cell."""
        boxes = [box for scene in self.boxes for box in scene]
        return fmean((right - left) * (bottom - top) for left, top, right, bottom in boxes)


def compute_result(experiment: Experiment, runs: Mapping[str, Run]) -> DemoResult:
    """Evaluate both runs on the test scenes."""
    experiment = replace(experiment, split="test")
    ours, theirs = (str(runs[name].folder) for name in (SETS, CONTROL))
    options = EvalOptions(split=experiment.split)
    sets, control, comparison = compare(ours, theirs, options, cache=experiment.cache)
    encoded = {name: encode_run(experiment, run) for name, run in runs.items()}
    rows, images = range(len(encoded[SETS].images)), encoded[SETS].split.images
    batches = (images.batch(rows[i : i + IMAGE_BATCH]) for i in rows[::IMAGE_BATCH])
    encoder = encoded[SETS].model.image_encoder
    return DemoResult(
        reports={SETS: sets, CONTROL: control},
        comparison=comparison,
        showcases={
            name: showcase(e.split, e.model.similarity(e.images, e.texts))
            for name, e in encoded.items()
        },
        encoded=encoded[SETS],
        boxes=caption_boxes(Path(runs[SETS].recipe.data.root) / SCENES_FILE, experiment.split),
        maps=torch.cat([slot_maps(encoder, batch) for batch in batches]),
    )


def caption_boxes(file: Path, split: str) -> list[list[Box]]:
    """For every scene of a split the box that each of its captions describes."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return [
        [
            image["scene"]["situations"][sentence["situation"]]["box"]
            for sentence in image["sentences"]
        ]
        for image in content["images"]
        if image["split"] == split
    ]
