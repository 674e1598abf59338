"""`diverset search`, `similar`, `caption` and `explain`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from diverset.errors import OptionError
from diverset.library.library import Library
from diverset.search.groups import group, matched_elements
from diverset.search.query import Asked
from diverset.search.searcher import Answer, Match, Searcher

NOTHING = "nothing matches well"


def search(given: argparse.Namespace) -> int:
    """Find pictures; status 1 where nothing matches well."""
    asked = Asked(
        given.words,
        given.also,
        given.without,
        given.filter,
        given.n,
        given.coverage,
        given.weights,
        given.balance,
    )
    with Library.open(given.library) as library:
        searcher = Searcher(library)
        picture = searcher.of_picture(given.image) if given.image else None
        title = " ".join(part for part in (given.words, given.image) if part)
        return _show(given, searcher, searcher.search(asked, picture), title)


def similar(given: argparse.Namespace) -> int:
    """Find pictures like one."""
    with Library.open(given.library) as library:
        searcher = Searcher(library)
        element = None if given.part is None else given.part - 1
        picture = searcher.of_picture(given.file)
        answer = searcher.similar(picture, given.n + 1, given.filter, element)
        own = os.path.abspath(given.file)
        others = [one for one in answer.matches if one.id != own][: given.n]
        return _show(given, searcher, Answer(others, answer.cutoff), f"like {given.file}")


def caption(given: argparse.Namespace) -> int:
    """Find texts for a picture."""
    with Library.open(given.library) as library:
        searcher = Searcher(library)
        answer = searcher.captions(searcher.of_picture(given.file), given.n)
        if given.json:
            print(
                json.dumps([as_dict(one) for one in answer.matches], indent=2, ensure_ascii=False)
            )
        else:
            for one in answer.matches:
                print(f"{one.score:.3f}  {one.metadata['text']}")
    return 0


def explain(given: argparse.Namespace) -> int:
    """Draw why a picture matches words."""
    from PIL import Image

    from diverset.search.drawing import draw_explanation

    if os.path.splitext(given.out)[1].lower() not in Image.registered_extensions():
        raise OptionError(f"--out {given.out} is no name of a picture; try {given.out}.png")
    words = " ".join(given.query.split())
    with Library.open(given.library) as library:
        explained = draw_explanation(Searcher(library), words, given.file)
        explained.picture.save(given.out)
        for at, share in enumerate(explained.shares):
            print(f"element {at + 1}: {share:.0%} of the match, cosine {explained.best[at]:.2f}")
        print(f"score {explained.score:.3f}; drawn in {given.out}")
    return 0


def as_dict(match: Match) -> dict[str, Any]:
    """A match as JSON has it."""
    return {
        "id": match.id,
        "score": round(match.score, 5),
        "probability": None if match.probability is None else round(match.probability, 4),
        "element": match.element + 1,
        "elements": [round(float(one), 4) for one in match.contributions.sum(axis=0)],
        "metadata": dict(match.metadata),
    }


def grouped(searcher: Searcher, matches: list[Match]) -> list[list[Match]]:
    """Matches by the element that matched."""
    if not matches:
        return []
    stored = searcher.library.pictures.get([one.id for one in matches])
    found = dict(zip(stored.ids, stored.sets, strict=True))
    there = [one for one in matches if one.id in found]
    elements = matched_elements([found[one.id] for one in there], [one.element for one in there])
    return [[there[place] for place in places] for places in group(elements)]


def _show(given: argparse.Namespace, searcher: Searcher, answer: Answer, title: str) -> int:
    good = answer.matches_well
    groups = grouped(searcher, answer.matches) if given.groups else [answer.matches]
    if given.json:
        found = {
            "matches_well": good,
            "cutoff": answer.cutoff,
            "groups": [[as_dict(one) for one in some] for some in groups],
        }
        print(json.dumps(found, indent=2, ensure_ascii=False))
    elif given.paths:
        for one in answer.matches:
            if one.probability is None or one.probability >= answer.cutoff:
                print(one.id)
    elif given.open:
        from diverset.search.sheet import open_sheet

        print(open_sheet(searcher.library.folder, title, groups, "" if good else NOTHING))
    else:
        for at, some in enumerate(groups):
            if given.groups:
                print(f"group {at + 1}")
            for one in some:
                print(_line(one))
    if not good and not given.json:
        nearest = "" if not answer.matches or given.paths else "; these are the nearest"
        print(NOTHING + nearest, file=sys.stderr)
    return 0 if good else 1


def _line(match: Match) -> str:
    likely = f"{match.score:6.3f}" if match.probability is None else f"{match.probability:6.0%}"
    return f"{likely}  {match.id}"
