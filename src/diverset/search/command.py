"""`diverset search`, `similar`, `caption` and `explain`."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from dataclasses import replace
from typing import Any

from diverset.errors import OptionError
from diverset.library.library import Library
from diverset.search.groups import group, matched_elements
from diverset.search.query import Asked, check_count
from diverset.search.searcher import Answer, Match, Searcher

NOTHING = "nothing matches well"
EMPTY = "the library has no pictures; add some with: diverset index FOLDER"


def search(given: argparse.Namespace) -> int:
    """Find pictures; status 1 where nothing matches well."""
    asked = Asked(
        " ".join(given.words),
        given.also,
        given.without,
        given.filter or None,
        given.n,
        given.coverage,
        given.weights,
        given.balance,
    )
    with Library.open(given.library) as library:
        searcher = Searcher(library)
        picture = searcher.of_picture(given.image) if given.image else None
        return _show(given, searcher, searcher.search(asked, picture), _title(given))


def similar(given: argparse.Namespace) -> int:
    """Find pictures like one."""
    with Library.open(given.library) as library:
        searcher = Searcher(library)
        element = None if given.part is None else given.part - 1
        picture = searcher.of_picture(given.file)
        check_count(given.n)
        answer = searcher.similar(picture, given.n + 1, given.filter or None, element)
        own = os.path.abspath(given.file)
        others = [one for one in answer.matches if one.id != own][: given.n]
        part = f"part {given.part} of " if given.part else ""
        return _show(given, searcher, replace(answer, matches=others), f"like {part}{given.file}")


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
            "by_probability": answer.by_probability,
            "groups": [[as_dict(one) for one in some] for some in groups],
        }
        print(json.dumps(found, indent=2, ensure_ascii=False))
    elif given.paths or given.null:
        for one in answer.matches:
            if one.probability is None or one.probability >= answer.cutoff:
                print(one.id, end="\0" if given.null else "\n")
    elif given.open:
        from diverset.search.sheet import open_sheet

        note = "" if good else f"{NOTHING}; these are the nearest." if answer.matches else EMPTY
        print(open_sheet(searcher.library.folder, title, groups, note))
    else:
        ranks = itertools.count(1)
        for at, some in enumerate(groups):
            if given.groups:
                print(f"group {at + 1}")
            for one in some:
                print(_line(one, next(ranks), answer))
    if not answer.matches:
        which = "no picture passes the filter" if given.filter else EMPTY
        print(which, file=sys.stderr)
    elif not good and not given.json:
        told = given.paths or given.null
        print(NOTHING + ("" if told else "; these are the nearest"), file=sys.stderr)
    return 0 if good else 1


def _line(match: Match, rank: int, answer: Answer) -> str:
    if answer.by_probability and match.probability is not None:
        return f"{match.probability:6.0%}  {match.id}"
    return f"{rank:5}.  {match.id}"


def _title(given: argparse.Namespace) -> str:
    """The question as the head of a page."""
    parts = [*given.words, *([f"like {given.image}"] if given.image else [])]
    parts += [f"and {one}" for one in given.also] + [f"not {one}" for one in given.without]
    parts += [f"where {given.filter}"] if given.filter else []
    chosen = (("by groups", given.groups), ("every element", given.coverage))
    return " ".join([*parts, *(f"({name})" for name, on in chosen if on)])
