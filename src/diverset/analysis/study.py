"""What a study is: the rows it needs trained, and how it is written down once they are.

It knows no particular study; they import it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diverset.analysis.bench import Bench, Run
from diverset.analysis.outcomes import outcome_of
from diverset.analysis.plots import plot_rows
from diverset.analysis.rows import Row
from diverset.analysis.tables import RSUM, Column, Page, failures, outcome_table, write_page
from diverset.analysis.verdicts import Claim, judge

Failed = Mapping[Path, str]


@dataclass(frozen=True)
class Study:
    """One table or figure of the paper.

    Attributes:
        name: on the command line.
        does: one line of help.
        runs: the runs that have to be there before it is written.
        write: writes it and returns the page; gets the runs that failed, with reasons.
        check: raises where the study makes no sense for a recipe.
    """

    name: str
    does: str
    runs: Callable[[Bench], list[Run]]
    write: Callable[[Bench, Failed], Path]
    check: Callable[[Bench], None] = lambda bench: None


def row_study(
    name: str,
    title: str,
    does: str,
    about: str,
    rows: Sequence[Row],
    base: str,
    claims: Sequence[Claim],
    columns: Sequence[Column] = (RSUM,),
) -> Study:
    """A study that is one table of trained rows, compared with the base row; plots column one."""

    def write(bench: Bench, failed: Failed) -> Path:
        outcomes = [outcome_of(bench, row, failed) for row in rows]
        picture, first = bench.out / f"{name}.png", columns[0]
        return write_page(
            bench,
            Page(
                name,
                title,
                about,
                tables=[outcome_table(outcomes, columns)],
                verdicts=[judge(claim, outcomes) for claim in claims],
                pictures=plot_rows(
                    picture, bench.titled(title), outcomes, base, first.metric, first.header
                ),
                numbers={"rows": [one.to_dict() for one in outcomes]},
                notes=failures(outcomes),
            ),
        )

    return Study(name, does, lambda bench: bench.runs_of(rows), write)
