"""Reproduce the paper's tables and figures with one command, `diverset reproduce`.

studies/        one module per table or figure of the paper
scenes/         the generated dataset
demo/           `diverset demo`: train on scenes and write a report
experiment.py   the base recipe, folders and options of one command
variants.py     one row of a table: changes to the recipe, and the paper's numbers
runs.py         a training run and its folder; train_runs.py trains the missing ones
reports.py      evaluations of runs and of several together, stored as JSON
methods.py      the methods that the paper compares; paper_numbers.py its numbers for them
results.py      the measured numbers of a variant, one per seed
claims.py       whether a claim of the paper holds
tables.py, page.py, plots.py   the written output
"""

__all__ = ["demo", "scenes", "studies"]
