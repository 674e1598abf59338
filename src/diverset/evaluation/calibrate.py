"""`diverset calibrate`: fit the probabilities of a model on images that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float

from diverset.data import CaptionDataset
from diverset.errors import DataError
from diverset.evaluation.calibration import Calibration
from diverset.evaluation.calibration_fit import fit_calibration
from diverset.evaluation.calibration_report import CalibrationReport
from diverset.evaluation.caption_words import CaptionWords
from diverset.evaluation.labelled_collection import Collection, parts
from diverset.evaluation.open_run import evaluated_data
from diverset.evaluation.options import EvalOptions
from diverset.model import Model
from diverset.model.folder import model_folder
from diverset.model.load import load
from diverset.recipe.config import DataConfig
from diverset.recipe.datasets import DatasetReader, join_datasets
from diverset.runtime.autocast import fastest_precision

MIN_IMAGES = 50


def calibrate(
    name: str,
    options: EvalOptions,
    splits: Sequence[str] | None = None,
    seed: int = 0,
    write: bool = True,
) -> tuple[Calibration, CalibrationReport]:
    """Fit the calibration of a model and write it into the model's folder.

    Words are counted in the training split. A dataset without one gives half of its images. All
    splits have the same weight.

    Args:
        name: folder of a run or a model, or name of a shipped model.
        options: describe the data.
        splits: with images that the model has not seen; the validation split by default.
        seed: of the random queries and collections.
        write: False only measures.
    """
    folder, rng = model_folder(name), np.random.default_rng(seed)
    data = evaluated_data(name, options)
    model, names = load(name), list(splits or [data.val])
    reader = DatasetReader(data)
    datasets, vocabulary = _count_words([reader.read(split) for split in names], data, rng)
    fitted, tested = [], []
    for dataset in datasets:
        fitted_rows, tested_rows = parts(len(dataset), rng)
        fitted += [dataset.subset(rows.tolist()) for rows in fitted_rows]
        tested.append(dataset.subset(tested_rows.tolist()))
    collections = [
        Collection.of(model, part, encode_images(model, part), vocabulary, rng)
        for part in (*fitted, join_datasets(names, tested))
    ]
    title = " + ".join(dataset.name for dataset in datasets)
    calibration = replace(
        fit_calibration(collections[:-1], vocabulary, rng),
        fitted_on=f"{title}: {sum(map(len, fitted)):,} images",
        fingerprint=model.fingerprint(),
    )
    if write:
        calibration.save(folder)
    return calibration, CalibrationReport.of(calibration, collections[-1], rng)


def encode_images(model: Model, dataset: CaptionDataset) -> Float[torch.Tensor, "images slots dim"]:
    """The sets of the images of a dataset, from files or region features."""
    if dataset.image_paths is not None:
        return model.encode_images(list(dataset.image_paths), precision=fastest_precision())
    if dataset.regions is None:
        raise DataError(f"{dataset.name} has no images; give their folder (--images)")
    return model.encode_images([dataset.regions[row] for row in range(len(dataset))])


def _count_words(
    datasets: Sequence[CaptionDataset], data: DataConfig, rng: np.random.Generator
) -> tuple[list[CaptionDataset], CaptionWords]:
    """The images to fit on, and the words of the training captions."""
    for dataset in datasets:
        if len(dataset) < MIN_IMAGES:
            raise DataError(f"{dataset.name} has {len(dataset)} images; give {MIN_IMAGES} or more")
    try:
        captions = DatasetReader(data, True).read(data.train).captions
        return list(datasets), CaptionWords.of(captions)
    except DataError:  # no training split
        halves = [np.array_split(rng.permutation(len(dataset)), 2) for dataset in datasets]
        pairs = list(zip(datasets, halves, strict=True))
        counted = [dataset.subset(half.tolist()) for dataset, (half, _) in pairs]
        rest = [dataset.subset(half.tolist()) for dataset, (_, half) in pairs]
        return rest, CaptionWords.of(caption for part in counted for caption in part.captions)
