"""What a study is: the runs it needs, and how its page is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diverset.reproduce.claims import Claim, decide
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.page import Page, write_page
from diverset.reproduce.plots import plot_results
from diverset.reproduce.results import collect_result
from diverset.reproduce.runs import Run
from diverset.reproduce.tables import RSUM, VARIANCES, Column, result_table
from diverset.reproduce.variants import Variant

Failed = Mapping[Path, str]
"""Folders of failed runs, with the reasons."""


@dataclass(frozen=True)
class Study:
    """One table or figure.

    Attributes:
        name: on the command line.
        help: one line for the help text.
        runs: the runs that must be trained before it is written.
        write: writes the page and returns its path.
        check: raises if the study does not apply to a recipe.
        prepare: makes data that its runs read.
    """

    name: str
    help: str
    runs: Callable[[Experiment], list[Run]]
    write: Callable[[Experiment, Failed], Path]
    check: Callable[[Experiment], None] = lambda experiment: None
    prepare: Callable[[Experiment], None] = lambda experiment: None


def table_study(
    name: str,
    title: str,
    help: str,
    about: str,
    variants: Sequence[Variant],
    base: str,
    claims: Sequence[Claim],
    columns: Sequence[Column] = (RSUM, *VARIANCES),
) -> Study:
    """A study with one table of trained variants; the plot compares column one with the base."""

    def write(experiment: Experiment, failed: Failed) -> Path:
        results = [collect_result(experiment, variant, failed) for variant in variants]
        plot, first = experiment.out / f"{name}.png", columns[0]
        return write_page(
            experiment,
            Page(
                name,
                title,
                about,
                tables=[result_table(results, columns)],
                verdicts=[decide(claim, results) for claim in claims],
                plots=plot_results(
                    plot, experiment.plot_title(title), results, base, first.metric, first.header
                ),
                results=results,
            ),
        )

    return Study(name, help, lambda experiment: experiment.runs_for(variants), write)
