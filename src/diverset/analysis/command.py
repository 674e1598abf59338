"""`diverset reproduce`: which studies there are, and what happens when one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from diverset.analysis import (
    architecture,
    attention,
    comparison,
    cost,
    elements,
    hyperparameters,
    noisy_correspondence,
    similarity,
    slot_attention,
    tsne,
    variance,
)
from diverset.analysis.bench import Bench, Run
from diverset.analysis.runner import plan, run_all
from diverset.analysis.study import Study
from diverset.errors import DiversetError, OptionError, check_choice

STUDIES: dict[str, Study] = {
    module.STUDY.name: module.STUDY
    for module in (
        comparison,
        similarity,
        architecture,
        variance,
        hyperparameters,
        elements,
        slot_attention,
        noisy_correspondence,
        cost,
        attention,
        tsne,
    )
}
ALL = "all"


def check_asked(what: str, seeds: int, jobs: int) -> None:
    """Refuse before anything is drawn or read."""
    check_choice("study", what, [*STUDIES, ALL])
    if seeds < 1 or jobs < 0:
        raise OptionError(f"seeds is {seeds}, jobs {jobs}; give 1 or more, 0 or more")


def reproduce(what: str, bench: Bench, dry_run: bool = False) -> int:
    """Train what is missing, write the tables; 1 if runs failed, which the tables then say."""
    check_asked(what, bench.seeds, bench.jobs)
    chosen = _fitting(what, bench)
    runs = _together([study.runs(bench) for study in chosen])
    if dry_run:
        print(plan(bench, runs))
        return 0
    failed = run_all(bench, runs) if runs else {}
    wrong = bool(failed)
    for study in chosen:
        try:
            print(f"{study.name}: {study.write(bench, failed)}", flush=True)
        except DiversetError as error:
            if what != ALL:
                raise
            print(f"{study.name} failed: {error}", flush=True)  # the others are still written
            wrong = True
    return int(wrong)


def _fitting(what: str, bench: Bench) -> list[Study]:
    """One study, or all that make sense for the recipe; those that do not are named."""
    if what != ALL:
        STUDIES[what].check(bench)
        return [STUDIES[what]]
    found = []
    for study in STUDIES.values():
        try:
            study.check(bench)
            found.append(study)
        except OptionError as error:
            print(f"{study.name} is left out: {error}", flush=True)
    return found


def _together(lists: Sequence[Sequence[Run]]) -> list[Run]:
    """Every run once, in the order of the studies."""
    found: dict[Path, Run] = {}
    for runs in lists:
        for run in runs:
            found.setdefault(run.folder, run)
    return list(found.values())
