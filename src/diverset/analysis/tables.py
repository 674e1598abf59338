"""Writing a study down: a Markdown page and a JSON file, the paper's figures beside ours.

It computes nothing but text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from diverset.analysis.bench import Bench
from diverset.analysis.outcomes import Outcome
from diverset.analysis.verdicts import Verdict
from diverset.data.files import write_durably

FORMAT = 1
UNITS = " Recalls and RSUM in percent; mean ± standard deviation over seeds."


@dataclass(frozen=True)
class Column:
    """A metric as a column; with the paper's figure in a column before it where there is one."""

    header: str
    metric: str
    digits: int = 1


RSUM = Column("RSUM", "rsum")
RECALLS = (
    Column("i2t R@1", "i2t_r1"),
    Column("R@5", "i2t_r5"),
    Column("R@10", "i2t_r10"),
    Column("t2i R@1", "t2i_r1"),
    Column("R@5", "t2i_r5"),
    Column("R@10", "t2i_r10"),
)
VARIANCES = (
    Column("log variance, images", "image_log_variance", 2),
    Column("log variance, texts", "text_log_variance", 2),
)


@dataclass(frozen=True)
class Page:
    """All that is said about a study.

    Attributes:
        study: its name on the command line.
        title: what the page is headed with.
        about: what is compared, and on which data the paper did it.
        tables: Markdown tables, each under a line of text.
        verdicts: the paper's claims and what was found.
        pictures: file names of plots beside the page.
        numbers: what the JSON file holds in addition to the verdicts.
        notes: said at the end.
    """

    study: str
    title: str
    about: str
    tables: Sequence[str]
    verdicts: Sequence[Verdict] = ()
    pictures: Sequence[str] = ()
    numbers: dict[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


def outcome_table(outcomes: Sequence[Outcome], columns: Sequence[Column]) -> str:
    """Rows as mean ± standard deviation over seeds, the paper's figure in front.

    >>> row = Outcome("MIL", {"rsum": [300.0, 302.0]}, {"rsum": 491.7})
    >>> print(outcome_table([row], [RSUM]))
    | row | paper: RSUM | RSUM | seeds |
    | --- | ---: | ---: | ---: |
    | MIL | 491.7 | 301.0 ± 1.4 | 2 |
    """
    head, align = ["row"], ["---"]
    for column in columns:
        if _in_paper(outcomes, column):
            head, align = [*head, f"paper: {column.header}"], [*align, "---:"]
        head, align = [*head, column.header], [*align, "---:"]
    lines = [_line([*head, "seeds"]), _line([*align, "---:"])]
    for one in outcomes:
        cells = [one.name]
        for column in columns:
            if _in_paper(outcomes, column):
                figure = one.paper.get(column.metric)
                cells.append("-" if figure is None else f"{figure:.{column.digits}f}")
            cells.append(cell(one, column))
        lines.append(_line([*cells, str(len(one.runs) or _seeds(one))]))
    return "\n".join(lines)


def cell(outcome: Outcome, column: Column) -> str:
    """Mean ± standard deviation; without one where there is a single seed."""
    mean, spread = outcome.mean(column.metric), outcome.spread(column.metric)
    if mean is None:
        return "failed" if outcome.note and not outcome.values else "-"
    shown = f"{mean:.{column.digits}f}"
    return shown if spread is None else f"{shown} ± {spread:.{column.digits}f}"


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: bool = True) -> str:
    """A table whose first column is text; the others are numbers, or text as well."""
    align = ["---"] + ["---:" if numbers else "---"] * (len(head) - 1)
    return "\n".join(_line(cells) for cells in (head, align, *rows))


def write_page(bench: Bench, page: Page) -> Path:
    """Write `<study>.md` and `<study>.json` into the output folder."""
    bench.out.mkdir(parents=True, exist_ok=True)
    target = bench.out / f"{page.study}.md"
    chosen = bench.recipe.train
    parts = [
        f"# {page.title}",
        page.about,
        f"Recipe `{bench.stem}` ({chosen.epochs} epochs), split `{bench.split}`, by "
        f"`{_command(bench, page)}`." + (UNITS if page.verdicts else ""),
        *page.tables,
        *(f"![{page.title}]({name})" for name in page.pictures),
    ]
    if page.verdicts:
        parts += ["## What the paper says, and what was found here", _verdict_table(page.verdicts)]
        parts.append(
            "A claim holds, or does not hold, only where the difference of means exceeds the "
            "spread over seeds: the root of both squared standard deviations, at least what the "
            "standard deviation pooled over all rows gives. Otherwise it is not decided. Rows from "
            "the same runs are compared seed by seed."
        )
    parts += page.notes
    write_durably(target, ("\n\n".join(parts) + "\n").encode())
    numbers = {
        "format": FORMAT,
        "study": page.study,
        "recipe": bench.stem,
        "split": bench.split,
        "epochs": chosen.epochs,
        "seeds": bench.seeds,
        **page.numbers,
        "claims": [asdict(one) for one in page.verdicts],
    }
    text = json.dumps(numbers, indent=2, ensure_ascii=False)
    write_durably(target.with_suffix(".json"), (text + "\n").encode())
    return target


def _command(bench: Bench, page: Page) -> str:
    """How to get the page again; where the data lies is left to whoever asks."""
    given = list(bench.overrides)
    for place, word in enumerate(given):
        if word.startswith("--data.root"):
            given[place : place + (1 if "=" in word else 2)] = ["--data.root", "DATA"]
            break
    file = bench.file.name if bench.file.is_absolute() else bench.file.as_posix()
    words = ["diverset reproduce", page.study, "--recipe", file, "--seeds", str(bench.seeds)]
    if bench.split != bench.recipe.data.val:
        words += ["--split", bench.split]
    if page.study == "comparison" and bench.skip:
        words += ["--skip", *(repr(name) if " " in name else name for name in bench.skip)]
    if page.study == "attention" and bench.images:
        words += ["--images", *map(str, bench.images)]
    return " ".join([*words, *given])


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    """A note for every row of which runs failed."""
    return [f"{one.name}: {one.note}." for one in outcomes if one.note]


def _verdict_table(verdicts: Sequence[Verdict]) -> str:
    rows = [_line([one.claim, f"**{one.answer}**", one.numbers]) for one in verdicts]
    return "\n".join([_line(["claim", "here", "numbers"]), _line(["---"] * 3), *rows])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _in_paper(outcomes: Sequence[Outcome], column: Column) -> bool:
    return any(column.metric in one.paper for one in outcomes)


def _seeds(outcome: Outcome) -> int:
    return max((len(found) for found in outcome.values.values()), default=0)
