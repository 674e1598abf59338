"""Write the measured columns of docs/systems.md from a comparison.

python docs/update_systems.py results/flickr8k_comparison/comparison.json
"""

import json
import sys
from pathlib import Path

PAGE = Path(__file__).with_name("systems.md")
COLUMNS = (("rsum", 1), ("minutes", 1), ("pair_kflops", 1), ("retrieval_ms", 1))
"""Metrics of the last columns, and their digits."""


def updated(page: str, comparison: dict) -> str:
    """The page with the numbers of a comparison; systems without numbers keep their cells."""
    results = {result["name"]: result for result in comparison["variants"] if result["mean"]}
    return "\n".join(_row(line, results) for line in page.split("\n"))


def _row(line: str, results: dict) -> str:
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    result = results.get(cells[0])
    if not line.startswith("| ") or result is None:
        return line
    measured = [_number(result, metric, digits) for metric, digits in COLUMNS]
    return f"| {' | '.join([*cells[: -len(COLUMNS)], *measured])} |"


def _number(result: dict, metric: str, digits: int) -> str:
    text = f"{result['mean'][metric]:,.{digits}f}"
    spread = result["standard_deviation"][metric]
    return text if spread is None else f"{text} ± {spread:.{digits}f}"


if __name__ == "__main__":
    comparison = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    PAGE.write_text(updated(PAGE.read_text(encoding="utf-8"), comparison), encoding="utf-8")
