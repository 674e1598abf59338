"""What a study is: the runs it needs, and its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from diverset.reproduce.claims import Claim, decide
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.page import Page, write_page
from diverset.reproduce.plots import plot_results
from diverset.reproduce.results import collect_result
from diverset.reproduce.runs import Failed, Run
from diverset.reproduce.tables import RSUM, VARIANCES, Column, result_table
from diverset.reproduce.variants import Variant


@dataclass(frozen=True)
class Study:
    """One table or figure.

    Attributes:
        name: on the command line, and of the written files.
        help: one line for the help text.
        variants: what must be trained before the page is made.
        page: makes the page from the trained runs.
        check: raises if the study does not apply to a recipe.
        prepare: makes data that its runs read.
        seeds: runs per variant, if it needs fewer than the experiment has.
    """

    name: str
    help: str
    variants: Callable[[Experiment], Sequence[Variant]]
    page: Callable[[Experiment, Failed], Page]
    check: Callable[[Experiment], None] = lambda experiment: None
    prepare: Callable[[Experiment], None] = lambda experiment: None
    seeds: int | None = None

    def runs(self, experiment: Experiment) -> list[Run]:
        """The runs that must be trained, each once."""
        return experiment.runs_for(self.variants(experiment), self.seeds)

    def write(self, experiment: Experiment, failed: Failed) -> Path:
        """Write the page; returns its path."""
        return write_page(experiment, self.name, self.page(experiment, failed))


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

    def page(experiment: Experiment, failed: Failed) -> Page:
        results = [collect_result(experiment, variant, failed) for variant in variants]
        plot, first = experiment.out / f"{name}.png", columns[0]
        return Page(
            title,
            about,
            tables=[result_table(results, columns)],
            verdicts=[decide(claim, results) for claim in claims],
            plots=plot_results(
                plot, experiment.plot_title(title), results, base, first.metric, first.header
            ),
            results=results,
        )

    return Study(name, help, lambda experiment: variants, page)
