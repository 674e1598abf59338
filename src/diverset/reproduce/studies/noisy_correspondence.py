"""Appendix: ECCV Caption and CxC, which annotate matches that COCO does not list. COCO only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from diverset.errors import OptionError
from diverset.evaluation.extras import ECCV_COVERAGE, ECCV_SCORES
from diverset.reproduce.claims import Claim, decide
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.methods import methods
from diverset.reproduce.page import Page
from diverset.reproduce.paper_numbers import OURS
from diverset.reproduce.reports import evaluate_runs, stored_json
from diverset.reproduce.results import Result, collect_result
from diverset.reproduce.runs import Failed, Run, file_name
from diverset.reproduce.study import Study
from diverset.reproduce.tables import Column, result_table
from diverset.reproduce.variants import Variant

OTHER = "VSE-infinity"
METRICS = {
    "eccv_map_at_r": "ECCV mAP@R",
    "eccv_rprecision": "ECCV R-P",
    "eccv_r1": "ECCV R@1",
    "cxc_r1": "CxC R@1",
}
DIRECTIONS = {"i2t": "image to text", "t2i": "text to image"}
COLUMNS = {
    direction: tuple(Column(header, f"{direction}_{metric}") for metric, header in METRICS.items())
    for direction in DIRECTIONS
}
PAPER = {
    "VSRN": ((30.8, 42.9, 73.8, 55.1), (53.8, 60.8, 89.2, 42.6)),
    OTHER: ((34.8, 45.4, 81.1, 67.9), (50.0, 57.5, 91.8, 53.7)),
    OURS: ((36.0, 46.4, 84.7, 72.3), (51.0, 58.5, 91.6, 55.5)),
}


def check(experiment: Experiment) -> None:
    if experiment.dataset != "coco" and "coco" not in (experiment.recipe.data.file or ""):
        raise OptionError(
            f"{experiment.name} is not on COCO; ECCV Caption and CxC annotate COCO's test split "
            "only, so give a recipe such as coco_resnext101_bert.yaml"
        )


def variants(experiment: Experiment) -> list[Variant]:
    return [
        replace(variant, paper=_paper(variant.name))
        for variant in methods(experiment.recipe)
        if variant.name in (OTHER, OURS)
    ]


def _paper(name: str) -> dict[str, float]:
    return {
        column.metric: number
        for direction, numbers in zip(DIRECTIONS, PAPER[name], strict=True)
        for column, number in zip(COLUMNS[direction], numbers, strict=True)
    }


def measure(experiment: Experiment, run: Run) -> dict[str, float]:
    """Scores of a run on COCO's test split."""
    scores = _eccv(experiment, run)[ECCV_SCORES]
    return {f"{d}_{metric}": scores[metric][d] for metric in METRICS for d in DIRECTIONS}


def _eccv(experiment: Experiment, run: Run) -> Any:
    """Scores and coverage, stored in the folder of the run."""
    split = run.recipe.data.test

    def compute() -> dict[str, Any]:
        extras = evaluate_runs(experiment, [run], split=split, eccv=True).extras
        return {name: extras[name] for name in (ECCV_SCORES, ECCV_COVERAGE)}

    return stored_json(run.folder / f"noisy-{file_name(split)}.json", compute)


def page(experiment: Experiment, failed: Failed) -> Page:
    measured = [collect_result(experiment, v, failed, measure) for v in variants(experiment)]
    results = [Result("VSRN (not run here)", {}, _paper("VSRN")), *measured]
    notes = []
    finished = [run for run in STUDY.runs(experiment) if run.folder not in failed]
    if finished:
        coverage = _eccv(experiment, finished[0])[ECCV_COVERAGE]
        counts = f"{coverage['images']} images and {coverage['captions']} captions"
        notes.append(f"Measured on {counts}.")
    claims = [
        Claim(f"ours beats {OTHER}: {column.header}, {name}", (OURS,), (OTHER,), column.metric)
        for direction, name in DIRECTIONS.items()
        for column in COLUMNS[direction]
    ]
    return Page(
        "ECCV Caption and CrissCrossed Captions",
        "Appendix: scores with matches that COCO does not list, on COCO's test split, by the "
        "package eccv_caption. The paper's row is its best model (ResNeXt-101 and BERT).",
        tables=[
            part
            for direction, name in DIRECTIONS.items()
            for part in (f"## {name.capitalize()}", result_table(results, COLUMNS[direction]))
        ],
        verdicts=[decide(claim, results) for claim in claims],
        results=results,
        notes=notes,
        split=experiment.recipe.data.test,
    )


STUDY = Study(
    "noisy-correspondence", "appendix: ECCV Caption and CxC, on COCO", variants, page, check
)
