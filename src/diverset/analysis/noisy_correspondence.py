"""Appendix: ECCV Caption and CxC, which know matches that COCO does not list. COCO only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from diverset.analysis.bench import Bench, Run, file_name
from diverset.analysis.methods import OURS, methods
from diverset.analysis.outcomes import Outcome
from diverset.analysis.rows import Row
from diverset.analysis.study import Failed, Study
from diverset.analysis.tables import Column, Page, outcome_table, write_page
from diverset.analysis.verdicts import Claim, judge
from diverset.analysis.worker import encoding_device
from diverset.data.files import write_durably
from diverset.errors import OptionError
from diverset.training.evaluating import Asked, evaluate

OTHER = "VSE-infinity"
METRICS = {
    "eccv_map_at_r": "ECCV mAP@R",
    "eccv_rprecision": "ECCV R-P",
    "eccv_r1": "ECCV R@1",
    "cxc_r1": "CxC R@1",
}
DIRECTIONS = {"i2t": "image to text", "t2i": "text to image"}
COLUMNS = {
    way: tuple(Column(header, f"{way}_{metric}") for metric, header in METRICS.items())
    for way in DIRECTIONS
}
PAPER = {
    "VSRN": ((30.8, 42.9, 73.8, 55.1), (53.8, 60.8, 89.2, 42.6)),
    OTHER: ((34.8, 45.4, 81.1, 67.9), (50.0, 57.5, 91.8, 53.7)),
    OURS: ((36.0, 46.4, 84.7, 72.3), (51.0, 58.5, 91.6, 55.5)),
}
FOUND = "ECCV Caption, CxC, COCO 5K (percent)"


def check(bench: Bench) -> None:
    if bench.dataset != "coco" and "coco" not in bench.recipe.data.file:
        raise OptionError(
            f"{bench.stem} is not on COCO; ECCV Caption and CxC judge COCO's test split only, so "
            "give a recipe such as coco_resnext101_bert.yaml"
        )


def rows(bench: Bench) -> list[Row]:
    return [
        replace(row, paper=_paper(row.name))
        for row in methods(bench.recipe)
        if row.name in (OTHER, OURS)
    ]


def _paper(name: str) -> dict[str, float]:
    return {
        column.metric: figure
        for way, figures in zip(DIRECTIONS, PAPER[name], strict=True)
        for column, figure in zip(COLUMNS[way], figures, strict=True)
    }


def measure(bench: Bench, run: Run) -> Mapping[str, Any]:
    """Scores of a run on COCO's test split, kept beside it."""
    file = run.folder / f"noisy-{file_name(run.recipe.data.test)}.json"
    if not file.exists():
        asked = Asked(
            root=run.recipe.data.root, split=run.recipe.data.test, eccv=True, cxc=bench.cxc
        )
        device = encoding_device(bench.device)
        report = evaluate([str(run.folder)], asked, cache=bench.store, device=device)
        write_durably(file, json.dumps(report.to_dict()["extras"], indent=2).encode())
    stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return stored


def _values(found: list[Mapping[str, Any]]) -> dict[str, list[float]]:
    return {
        f"{way}_{metric}": [one[FOUND][metric][way] for one in found]
        for metric in METRICS
        for way in DIRECTIONS
    }


def write(bench: Bench, failed: Failed) -> Path:
    outcomes = [Outcome("VSRN (not run here)", {}, _paper("VSRN"))]
    for row in rows(bench):
        runs = [run for run in bench.runs_of([row]) if run.folder not in failed]
        found = [measure(bench, run) for run in runs]
        names = [run.folder.name for run in runs]
        outcomes.append(Outcome(row.name, _values(found), row.paper, runs=names))
    claims = [
        Claim(f"ours beats {OTHER}: {column.header}, {said}", (OURS,), (OTHER,), column.metric)
        for way, said in DIRECTIONS.items()
        for column in COLUMNS[way]
    ]
    return write_page(
        replace(bench, split=bench.recipe.data.test),
        Page(
            "noisy-correspondence",
            "ECCV Caption and CrissCrossed Captions",
            "Appendix: scores with matches that COCO does not list, on COCO's test split, by the "
            "package eccv_caption. The paper's row is its best model (ResNeXt-101 and BERT).",
            tables=[
                part
                for way, said in DIRECTIONS.items()
                for part in (f"## {said.capitalize()}", outcome_table(outcomes, COLUMNS[way]))
            ],
            verdicts=[judge(claim, outcomes) for claim in claims],
            numbers={"rows": [one.to_dict() for one in outcomes]},
        ),
    )


STUDY = Study(
    "noisy-correspondence",
    "appendix: ECCV Caption and CxC, on COCO",
    lambda bench: bench.runs_of(rows(bench)),
    write,
    check,
)
