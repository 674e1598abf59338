"""`diverset reproduce`: train what the studies need, then write their pages."""

from __future__ import annotations

from diverset.errors import DiversetError, OptionError, check_choice
from diverset.recipe.datasets import read_split
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.runs import unique_runs
from diverset.reproduce.studies import STUDIES
from diverset.reproduce.study import Study
from diverset.reproduce.train_runs import plan, train_runs

ALL = "all"


def check_options(what: str, seeds: int, jobs: int) -> None:
    """Reject wrong options before anything is read."""
    check_choice("study", what, [*STUDIES, ALL])
    if seeds < 1 or jobs < 0:
        raise OptionError(f"seeds is {seeds}, jobs is {jobs}; give at least 1 and at least 0")


def run_studies(what: str, experiment: Experiment, dry_run: bool = False) -> int:
    """Train missing runs and write the pages; returns 1 if a run or a page failed, else 0."""
    check_options(what, experiment.seeds, experiment.jobs)
    studies = _applicable(what, experiment)
    if not dry_run:
        experiment.draw_missing_scenes()
        # A wrong name of the split must not be noticed only after hours of training.
        read_split(experiment.recipe.data, experiment.split, captions_only=True)
        for study in studies:
            study.prepare(experiment)
    runs = unique_runs(run for study in studies for run in study.runs(experiment))
    if dry_run:
        print(plan(experiment, runs))
        return 0
    failed = train_runs(experiment, runs) if runs else {}
    any_failed = bool(failed)
    for study in studies:
        try:
            print(f"{study.name}: {study.write(experiment, failed)}", flush=True)
        except DiversetError as error:
            if what != ALL:
                raise
            print(f"{study.name} failed: {error}", flush=True)  # the others are still written
            any_failed = True
    return int(any_failed)


def _applicable(what: str, experiment: Experiment) -> list[Study]:
    """One study, or all that apply to the recipe; the others are named."""
    if what != ALL:
        STUDIES[what].check(experiment)
        return [STUDIES[what]]
    studies = []
    for study in STUDIES.values():
        try:
            study.check(experiment)
            studies.append(study)
        except OptionError as error:
            print(f"{study.name} is skipped: {error}", flush=True)
    return studies
