"""Everything the report shows: computed once from the two trained runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from diverset.evaluation import Report
from diverset.evaluation.bootstrap import Comparison
from diverset.evaluation.open_run import open_run
from diverset.evaluation.options import EvalOptions
from diverset.evaluation.run import compare
from diverset.model import Model
from diverset.model.slot_maps import slot_maps
from diverset.recipe.encode import IMAGE_BATCH, encode_split
from diverset.recipe.splits import SplitData, open_split
from diverset.reproduce.demo.matches import Box, points_into, slot_shares
from diverset.reproduce.demo.recipe import CONTROL, SETS
from diverset.reproduce.demo.showcase import Showcase, found_first, showcase
from diverset.reproduce.scenes import SCENES_FILE


@dataclass(frozen=True)
class DemoResult:
    """The two models on the test scenes.

    Attributes:
        reports: recalls by the name of the model.
        comparison: sets against one vector, by paired bootstrap.
        showcases: the showcased queries by the name of the model.
        model: the model with sets.
        split: the test scenes.
        boxes: for every test scene the boxes of its situations, in the order of its captions.
        images: sets of the test scenes.
        texts: sets of their captions.
        maps: for every test scene what each slot attends to.
    """

    reports: Mapping[str, Report]
    comparison: Comparison
    showcases: Mapping[str, list[Showcase]]
    model: Model
    split: SplitData
    boxes: list[list[Box]]
    images: Tensor
    texts: Tensor
    maps: Tensor

    @property
    def showcase_line(self) -> str:
        """How many showcased queries each model answers right."""
        counts = [f"{name} {found_first(queries)}" for name, queries in self.showcases.items()]
        total = len(self.showcases[SETS])
        return f"showcased queries with the right image first, of {total}: {', '.join(counts)}"

    def pointing(self) -> float:
        """Share of captions whose slot attends most to a cell inside the described situation."""
        alpha, hits = self.model.config.similarity.alpha, []
        for image, captions in enumerate(self.split.by_image):
            for caption, box in zip(captions.tolist(), self.boxes[image], strict=True):
                shares = slot_shares(self.images[image], self.texts[caption], alpha)
                hits.append(points_into(self.maps[image, int(shares.argmax())], box))
        return sum(hits) / len(hits)

    def chance(self) -> float:
        """Share of the image that a box covers: `pointing` of a random cell."""
        boxes = [box for scene in self.boxes for box in scene]
        return sum((right - left) * (bottom - top) for left, top, right, bottom in boxes) / len(
            boxes
        )


def compute_result(runs: Mapping[str, Path], cache: Path) -> DemoResult:
    """Evaluate both runs on the test scenes."""
    options = EvalOptions(split="test")
    sets, control, comparison = compare(str(runs[SETS]), str(runs[CONTROL]), options, cache=cache)
    showcases = {}
    for name in (CONTROL, SETS):
        model, data = open_run(str(runs[name]))
        split = open_split(data, "test", model, cache)
        images, texts = encode_split(model, split)
        showcases[name] = showcase(split, model.similarity(images, texts))
    starts = range(0, len(split.images), IMAGE_BATCH)
    rows = [range(start, min(start + IMAGE_BATCH, len(split.images))) for start in starts]
    maps = [slot_maps(model.image_encoder, split.images.batch(batch)) for batch in rows]
    return DemoResult(
        reports={SETS: sets, CONTROL: control},
        comparison=comparison,
        showcases={name: showcases[name] for name in (SETS, CONTROL)},
        model=model,
        split=split,
        boxes=caption_boxes(Path(data.root) / SCENES_FILE, "test"),
        images=images,
        texts=texts,
        maps=torch.cat(maps),
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
