"""Tab. 1 and 2: methods by recalls and RSUM, ensembles of two, and paired bootstraps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from diverset.analysis.bench import Bench, Run, file_name
from diverset.analysis.methods import CONTROL, OURS, PAPER, methods
from diverset.analysis.outcomes import METRICS, Outcome, outcome_of
from diverset.analysis.plots import plot_rows
from diverset.analysis.rows import Row
from diverset.analysis.study import Failed, Study
from diverset.analysis.tables import (
    RECALLS,
    RSUM,
    Column,
    Page,
    cell,
    failures,
    markdown_table,
    write_page,
)
from diverset.analysis.verdicts import Claim, judge
from diverset.analysis.worker import encoding_device, keep_report, stored_ranks
from diverset.errors import check_choice
from diverset.evaluation import paired_bootstrap
from diverset.training.evaluating import Asked, evaluate

COLUMNS = (*RECALLS, RSUM)
MINUTES = Column("minutes a run", "minutes")
PAIR = 2  # the paper's ensembles are of two models


def write(bench: Bench, failed: Failed) -> Path:
    rows = compared(bench)
    outcomes = [outcome_of(bench, row, failed) for row in rows]
    pairs = {row.name: ensemble(bench, row, failed) for row in rows}
    bootstraps = {
        row.name: _bootstraps(bench, row, rows[-1], failed) for row in rows if row.name != OURS
    }
    claims = [
        Claim(f"ours beats {row.name}", (OURS,), (row.name,))
        for row in rows
        if row.name not in (OURS, CONTROL)
    ]
    if CONTROL not in bench.skip:
        claims.append(Claim("sets beat their control, one vector (K = 1)", (OURS,), (CONTROL,)))
    title = "Methods"
    return write_page(
        bench,
        Page(
            "comparison",
            title,
            "Tab. 1 and 2: every method under the recipe's own backbones, data and schedule. "
            "“+” is the mean similarity of two seeds. The paper's rows stand beneath ours; they "
            "are from other data and other backbones, as named.",
            tables=[
                _table(bench, outcomes, pairs),
                "## Ours against each, paired bootstrap over images, seed by seed",
                _bootstrap_table(bootstraps),
            ],
            verdicts=[judge(claim, outcomes) for claim in claims],
            pictures=plot_rows(bench.out / "comparison.png", bench.titled(title), outcomes, OURS),
            numbers={
                "rows": [one.to_dict() for one in outcomes],
                "ensembles": {name: one for name, one in pairs.items() if one},
                "paired_bootstrap": bootstraps,
            },
            notes=failures(outcomes),
        ),
    )


def compared(bench: Bench) -> list[Row]:
    """The methods, without those that are not asked for; ours always is."""
    rows = methods(bench.recipe)
    for name in bench.skip:
        check_choice("skip", name, [row.name for row in rows if row.name != OURS])
    return [row for row in rows if row.name not in bench.skip]


def ensemble(bench: Bench, row: Row, failed: Failed) -> dict[str, float]:
    """Recalls of the mean similarity of a row's first two seeds; kept beside the runs."""
    runs = [bench.run_of(row, seed) for seed in range(min(PAIR, bench.seeds))]
    if len(runs) < PAIR or any(run.folder in failed for run in runs):
        return {}
    report = _stored(bench, runs)
    found = {name: get(report) for name, get in METRICS.items()}
    return {name: value for name, value in found.items() if value is not None}


def _stored(bench: Bench, runs: Sequence[Run]) -> dict[str, Any]:
    names = [run.folder.name for run in runs]
    key = hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]
    folder = bench.runs / "ensembles"
    file = folder / f"{key}-{file_name(bench.split)}.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        asked = Asked(root=runs[0].recipe.data.root, split=bench.split)
        device = encoding_device(bench.device)
        found = evaluate([str(run.folder) for run in runs], asked, cache=bench.store, device=device)
        keep_report(found, file, file.with_suffix(".npz"))
    report: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return report


def _bootstraps(bench: Bench, row: Row, ours: Row, failed: Failed) -> list[dict[str, Any]]:
    found = []
    for seed in range(bench.seeds):
        first, second = bench.run_of(row, seed), bench.run_of(ours, seed)
        if first.folder in failed or second.folder in failed:
            continue
        ranks = [stored_ranks(run.ranks(bench.split)) for run in (first, second)]
        found.append({"run_seed": seed, **asdict(paired_bootstrap(*ranks))})
    return found


def _bootstrap_table(bootstraps: dict[str, list[dict[str, Any]]]) -> str:
    rows = [
        [
            f"{OURS} - {name}",
            str(one["run_seed"]),
            f"{one['difference']:+.1f}",
            f"{one['low']:+.1f} to {one['high']:+.1f}",
            f"{one['p_value']:.4f}",
        ]
        for name, some in bootstraps.items()
        for one in some
    ]
    return markdown_table(["difference of", "seed", "RSUM", "95 % interval", "p"], rows)


def _table(bench: Bench, outcomes: Sequence[Outcome], pairs: dict[str, dict[str, float]]) -> str:
    data = "COCO 5K" if bench.dataset == "coco" else "Flickr30K"
    rows = []
    for one in outcomes:
        rows.append([f"**{one.name}**", *(cell(one, column) for column in (*COLUMNS, MINUTES))])
        pair = pairs.get(one.name)
        if pair:
            numbers = (_figure(pair[column.metric]) for column in COLUMNS)
            rows.append([f"**{one.name} +**", *numbers, ""])
        for setting, figures in PAPER[data].get(one.name, {}).items():
            rows.append([f"paper, {data}, {setting}", *map(_figure, figures), ""])
    return markdown_table(["method", *(column.header for column in (*COLUMNS, MINUTES))], rows)


def _figure(number: float) -> str:
    return f"{number:.1f}"


STUDY = Study(
    "comparison",
    "Tab. 1 and 2: methods by recalls and RSUM, ensembles, paired bootstrap",
    lambda bench: bench.runs_of(compared(bench)),
    write,
)
