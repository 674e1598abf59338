"""Evaluate trained models on a split of a dataset, alone, as an ensemble or against each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path

from diverset.errors import OptionError
from diverset.evaluation.bootstrap import Comparison, paired_bootstrap
from diverset.evaluation.encoded import EncodedModel, encode_models
from diverset.evaluation.extras import additional_measurements
from diverset.evaluation.options import EvalOptions
from diverset.evaluation.report import Report
from diverset.evaluation.sets import evaluate_members
from diverset.model import Model
from diverset.runtime.folders import user_cache_folder
from diverset.runtime.progress import Progress

Models = str | Model | Sequence[str | Model]
"""Folder of a run, a model as `diverset.load` takes it, or a `Model`; several for an ensemble."""


def evaluate(
    models: Models,
    options: EvalOptions | None = None,
    *,
    cache: Path | None = None,
    device: str = "cpu",
) -> Report:
    """Evaluate a trained model on a split, or several as an ensemble by their mean similarity.

    Args:
        models: folder of a run, a model as `diverset.load` takes it, or a `Model`; several for an
            ensemble. `options` must describe the data of models without a recipe.
        options: data, split, protocol and additional measurements.
        cache: folder for features of frozen backbones; the user's cache by default.
        device: where to compute.
    """
    return _reports([_as_list(models)], options, cache, device)[0]


def compare(
    models: Models,
    against: Models,
    options: EvalOptions | None = None,
    *,
    cache: Path | None = None,
    device: str = "cpu",
) -> tuple[Report, Report, Comparison]:
    """Evaluate two models, or ensembles, on the same split, and compare them by paired bootstrap.

    The arguments are those of `evaluate`. Returns the reports of `models` and of `against`, and
    the difference, `models` - `against`.
    """
    report, other = _reports([_as_list(models), _as_list(against)], options, cache, device)
    assert report.ranks is not None and other.ranks is not None
    return report, other, paired_bootstrap(other.ranks, report.ranks)


def _as_list(models: Models) -> list[str | Model]:
    listed = [models] if isinstance(models, str | Model) else list(models)
    if not listed:
        raise OptionError("no model to evaluate; give at least one folder")
    return listed


def _reports(
    ensembles: Sequence[list[str | Model]],
    options: EvalOptions | None,
    cache: Path | None,
    device: str,
) -> list[Report]:
    options, cache = options or EvalOptions(), cache or user_cache_folder()
    with Progress() as progress:
        models = list(chain.from_iterable(ensembles))
        encoded = iter(encode_models(models, options, cache, device, progress))
    return [_report(list(islice(encoded, len(ensemble))), options) for ensemble in ensembles]


def _report(encoded: Sequence[EncodedModel], options: EvalOptions) -> Report:
    first = encoded[0]
    return evaluate_members(
        [model.member for model in encoded],
        first.dataset.image_index,
        options.protocol,
        health=first.model.has_sets and len(encoded) == 1,
        extras={
            "data": first.dataset.name,
            "runs": [model.name for model in encoded],
            **additional_measurements(encoded, options),
        },
    )
