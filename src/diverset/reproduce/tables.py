"""Markdown tables of results, the paper's numbers next to the measured ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from diverset.reproduce.results import Result


@dataclass(frozen=True)
class Column:
    """A metric as a column; the paper's number is in a column before it where there is one."""

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


def result_table(results: Sequence[Result], columns: Sequence[Column]) -> str:
    """One row per result: mean ± standard deviation over seeds, the paper's number before it.

    >>> result = Result("MIL", {"rsum": [300.0, 302.0]}, {"rsum": 491.7})
    >>> print(result_table([result], [RSUM]))
    | variant | paper: RSUM | RSUM | seeds |
    | --- | ---: | ---: | ---: |
    | MIL | 491.7 | 301.0 ± 1.4 | 2 |
    """
    in_paper = {c.metric for c in columns if any(c.metric in result.paper for result in results)}
    head = ["variant"]
    for column in columns:
        head += [f"paper: {column.header}"] if column.metric in in_paper else []
        head.append(column.header)
    rows = []
    for result in results:
        cells = [result.name]
        for column in columns:
            if column.metric in in_paper:
                number = result.paper.get(column.metric)
                cells.append("-" if number is None else f"{number:.{column.digits}f}")
            cells.append(cell(result, column))
        seeds = max((len(numbers) for numbers in result.values.values()), default=0)
        rows.append([*cells, str(len(result.runs) or seeds)])
    return markdown_table([*head, "seeds"], rows)


def cell(result: Result, column: Column) -> str:
    """Mean ± standard deviation; the mean alone for a single seed."""
    mean, spread = result.mean(column.metric), result.spread(column.metric)
    if mean is None:
        return "failed" if result.note and not result.values else "-"
    text = f"{mean:.{column.digits}f}"
    return text if spread is None else f"{text} ± {spread:.{column.digits}f}"


def bootstrap_table(
    first_column: str, bootstraps: Mapping[str, Sequence[Mapping[str, Any]]], difference: str
) -> str:
    """One row per comparison and seed, from the fields of `Comparison` and "run_seed"."""
    rows = [
        [
            name,
            str(seed["run_seed"]),
            f"{seed['difference']:+.1f}",
            f"{seed['low']:+.1f} to {seed['high']:+.1f}",
            f"{seed['p_value']:.4f}",
        ]
        for name, seeds in bootstraps.items()
        for seed in seeds
    ]
    return markdown_table([first_column, "seed", difference, "95 % interval", "p"], rows)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: bool = True) -> str:
    """A table whose first column is text; the others are numbers, or text as well."""
    align = ["---"] + ["---:" if numbers else "---"] * (len(head) - 1)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, align, *rows))
