"""The paper's tables and figures, made again: one module a study, one command for all.

A study is a list of rows, a row is a recipe with changes and the paper's figure. Data flows
rows -> bench (which run folders) -> runner (train what is missing) -> measuring -> verdicts,
tables, plots. `diverset reproduce` is the door; nothing here is imported by the other folders.
"""
