"""Write a study: a Markdown page and a JSON file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from diverset.recipe.named import FOLDERS
from diverset.reproduce.claims import Verdict
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.results import Result
from diverset.reproduce.tables import markdown_table
from diverset.runtime.files import write_durably

FORMAT = 2
UNITS = " Recalls and RSUM in percent; mean ± standard deviation over seeds."
HOW_DECIDED = (
    "A claim holds, or does not hold, only if the difference of means exceeds the spread over "
    "seeds: the root of the sum of both squared standard deviations, and at least what the "
    "standard deviation pooled over all rows gives. Otherwise it is not decided. Rows from the "
    "same runs are compared seed by seed."
)


@dataclass(frozen=True)
class Page:
    """The content of a study's page.

    Attributes:
        title: the heading.
        about: what is compared, and on which data the paper did it.
        tables: Markdown tables and headings between them.
        verdicts: the paper's claims and whether they hold.
        plots: file names of plots in the folder of the page.
        results: written to the JSON file; failed runs are named at the end of the page.
        numbers: other content of the JSON file.
        notes: remarks at the end.
        split: what was measured, if it is not the reported split.
    """

    title: str
    about: str
    tables: Sequence[str]
    verdicts: Sequence[Verdict] = ()
    plots: Sequence[str] = ()
    results: Sequence[Result] | None = None
    numbers: dict[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    split: str | None = None


def write_page(experiment: Experiment, study: str, page: Page) -> Path:
    """Write `<study>.md` and `<study>.json` into the output folder."""
    experiment = replace(experiment, split=page.split or experiment.split)
    experiment.out.mkdir(parents=True, exist_ok=True)
    file = experiment.out / f"{study}.md"
    write_durably(file, (_markdown(experiment, study, page) + "\n").encode())
    numbers = {
        "format": FORMAT,
        "study": study,
        "recipe": experiment.name,
        "split": experiment.split,
        "epochs": experiment.recipe.train.epochs,
        "seeds": experiment.seeds,
        **({} if page.results is None else {"variants": [r.to_dict() for r in page.results]}),
        **page.numbers,
        "claims": [asdict(verdict) for verdict in page.verdicts],
    }
    text = json.dumps(numbers, indent=2, ensure_ascii=False)
    write_durably(file.with_suffix(".json"), (text + "\n").encode())
    return file


def _markdown(experiment: Experiment, study: str, page: Page) -> str:
    parts = [
        f"# {page.title}",
        page.about,
        f"Recipe `{experiment.name}` ({experiment.recipe.train.epochs} epochs), split "
        f"`{experiment.split}`. Command: `{_command(experiment, study)}`."
        + (UNITS if page.verdicts else ""),
        *page.tables,
        *(f"![{page.title}]({name})" for name in page.plots),
    ]
    if page.verdicts:
        rows = [[v.claim, f"**{v.answer}**", v.numbers] for v in page.verdicts]
        table = markdown_table(["claim", "here", "numbers"], rows, numbers=False)
        parts += ["## The paper's claims and what was measured here", table, HOW_DECIDED]
    failures = [f"{result.name}: {result.note}." for result in page.results or () if result.note]
    return "\n\n".join([*parts, *failures, *page.notes])


def _command(experiment: Experiment, study: str) -> str:
    """The command that writes the page again, with a placeholder for the data folder."""
    overrides = list(experiment.overrides)
    for index, word in enumerate(overrides):
        if word.startswith("--data.root"):
            overrides[index : index + (1 if "=" in word else 2)] = ["--data.root", "DATA"]
            break
    recipe = experiment.recipe_file
    file = recipe.as_posix()
    if recipe.is_absolute():  # by its name if it is part of the package
        file = recipe.stem if recipe.parent in FOLDERS else recipe.name
    words = ["diverset reproduce", study, "--recipe", file, "--seeds", str(experiment.seeds)]
    if experiment.split != experiment.recipe.data.val:
        words += ["--split", experiment.split]
    if study == "comparison" and experiment.skip:
        words += ["--skip", *(repr(name) if " " in name else name for name in experiment.skip)]
    if study == "comparison" and not experiment.ensembles:
        words.append("--no-ensembles")
    if study == "attention" and experiment.images:
        words += ["--images", *map(str, experiment.images)]
    return " ".join([*words, *overrides])
