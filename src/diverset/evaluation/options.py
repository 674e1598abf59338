"""The options of an evaluation, and the data that they describe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diverset.errors import check_choice, check_positive
from diverset.evaluation.sets import PROTOCOLS
from diverset.recipe.config import DataConfig
from diverset.recipe.detect import default_split, detect_dataset, has_caption_files
from diverset.similarity import SIMILARITIES


@dataclass(frozen=True)
class EvalOptions:
    """What to evaluate and how. None means: as the run's recipe and model say."""

    root: str | None = None
    """Folder or caption file of the dataset. If it has the files that the recipe names, it is read
    as the recipe says; otherwise its format is detected."""
    format: str | None = None
    """Format of the dataset, if it is not detected: "karpathy", "coco", "precomp" or "table"."""
    file: str | None = None
    """Caption file in `root`; several are separated by commas."""
    images: str | None = None
    """Folder of the images in `root`."""
    split: str | None = None
    """Name of the split, or "all"; the validation split by default."""
    protocol: str = "full"
    """A name in `diverset.evaluation.PROTOCOLS`."""
    similarity: str | None = None
    """A similarity in place of the model's own."""
    alpha: float | None = None
    """Alpha of smooth-Chamfer similarity, in place of the model's own."""
    image_elements: Sequence[int] | None = None
    """Only these elements of the image sets, counted from 0."""
    text_elements: Sequence[int] | None = None
    """Only these elements of the text sets, counted from 0."""
    eccv: bool = False
    """Also ECCV Caption, CxC and COCO 5K by the package eccv_caption; COCO's Karpathy test split,
    or the part of it that is there."""
    cxc: str | None = None
    """Also CxC, with the annotations of this folder."""
    objects: str | None = None
    """Also object names as queries, with the labels in this file; see `read_labels`."""
    precision: str = "float32"
    """Precision of the encoders and of cross-attention: "float32" or "bfloat16"."""
    hubness: int | None = None
    """Also with hubness correction, by the query bank stored with the model, or else by a new one
    of this many training images and captions with a weight chosen on the validation split."""
    save_bank: bool = False
    """Store the new query bank with the model."""

    def __post_init__(self) -> None:
        check_choice("protocol", self.protocol, PROTOCOLS)
        if self.similarity is not None:
            check_choice("similarity", self.similarity, SIMILARITIES)
        check_positive("alpha", self.alpha)
        check_positive("hubness", self.hubness)

    def data_config(self, data: DataConfig) -> DataConfig:
        """The data of a recipe with these options."""
        options = {"format": self.format, "file": self.file, "images": self.images}
        changes: dict[str, Any] = {name: value for name, value in options.items() if value}
        if self.root is not None:
            moved = replace(data, root=self.root)
            if self.format or self.file or not has_caption_files(moved):
                detected = detect_dataset(Path(self.root), data, **changes)
                return replace(detected, val=self.split or default_split(detected))
            data = moved
        elif self.format or self.file:
            data = replace(data, sources=())
        return replace(data, **changes)
