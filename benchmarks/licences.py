"""The licences of all packages in constraints.txt, from the metadata of the installed ones.

    python benchmarks/licences.py

Prints the table of docs/supply-chain.md.
"""

from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"


def licence(name: str) -> str:
    """What a package says about itself: an SPDX expression, a classifier, or a short text."""
    about = metadata(name)
    if expression := about.get("License-Expression"):
        return expression
    named = [
        line.rpartition(" :: ")[2]
        for line in about.get_all("Classifier") or []
        if line.startswith("License :: ") and not line.endswith("OSI Approved")
    ]
    text = (about.get("License") or "").strip().splitlines()
    return ", ".join(named) or (text[0][:60] if text else "not stated")


def main() -> None:
    names = [line.partition("==")[0] for line in CONSTRAINTS.read_text().splitlines() if line]
    print("| package | licence |\n| --- | --- |")
    for name in names:
        try:
            print(f"| {name} | {licence(name)} |")
        except PackageNotFoundError:
            print(f"| {name} | not installed here |")


if __name__ == "__main__":
    main()
