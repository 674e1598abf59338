"""`diverset search`, `similar`, `caption` and `explain`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from diverset.errors import OptionError
from diverset.photos.element_numbers import element_number
from diverset.photos.library.library import Library
from diverset.photos.search.query import SearchQuery
from diverset.photos.search.result import SearchHit, SearchResult
from diverset.photos.search.searcher import Searcher
from diverset.photos.search.terminal import show_contact_sheet, terminal_protocol
from diverset.runtime.terminal import printable

EMPTY = "there are no (other) photos in the library; add some with: diverset index FOLDER"


def search(args: argparse.Namespace) -> int:
    """Find photos; exit code 1 if there is no hit at all."""
    query = SearchQuery(
        text=" ".join(args.text),
        required=args.required,
        excluded=args.excluded,
        filter=args.filter or None,
        k=args.n,
        coverage=args.coverage,
        weights=args.weights,
        balance=args.balance,
        min_probability=args.min_probability,
        leave_out=os.path.abspath(args.image) if args.image else None,
    )
    with Library.open(args.library) as library:
        searcher = Searcher(library)
        image = searcher.encode_image(args.image) if args.image else None
        return _print(args, searcher, searcher.search(query, image), _title(args))


def similar(args: argparse.Namespace) -> int:
    with Library.open(args.library) as library:
        searcher = Searcher(library)
        image = searcher.encode_image(args.file)
        path = os.path.abspath(args.file)
        query = SearchQuery(k=args.n, filter=args.filter or None, leave_out=path)
        result = searcher.search(query, image, args.element)
        part = "" if args.element is None else f"element {element_number(args.element)} of "
        title = f"similar to {part}{args.file}"
        return _print(args, searcher, result, title)


def caption(args: argparse.Namespace) -> int:
    with Library.open(args.library) as library:
        searcher = Searcher(library)
        hits = searcher.captions(searcher.encode_image(args.file), args.n).hits
        if args.json:
            _print_json([hit.as_json() for hit in hits])
        else:
            for hit in hits:
                print(f"{hit.score:.3f}  {printable(str(hit.metadata['text']))}")
    return 0


def explain(args: argparse.Namespace) -> int:
    from PIL import Image

    from diverset.photos.search.explanation import draw_explanation

    if os.path.splitext(args.out)[1].lower() not in Image.registered_extensions():
        raise OptionError(f"--out {args.out} is not the name of an image; try {args.out}.png")
    text = " ".join(args.text.split())
    with Library.open(args.library) as library:
        explanation, drawing = draw_explanation(Searcher(library), text, args.file)
    drawing.save(args.out)
    for element, cosine in enumerate(explanation.cosines):
        described = explanation.describe(element)
        print(f"element {element_number(element)}: {described}, cosine {cosine:.2f}")
    print(f"score {explanation.score:.3f}; drawn in {args.out}")
    return 0


def _print(args: argparse.Namespace, searcher: Searcher, result: SearchResult, title: str) -> int:
    hits = result.hits
    groups = searcher.groups(hits) if args.groups else [hits]
    protocol = _image_protocol(args)
    if args.json:
        _print_json(result.as_json(groups))
    elif args.paths or args.null:
        raw = args.null or not sys.stdout.isatty()  # for programs, names are as they are
        for hit in hits:
            print(hit.id if raw else printable(hit.id), end="\0" if args.null else "\n")
    elif args.open:
        from diverset.photos.search.result_page import open_page

        note = result.note if hits else _reason(args)
        print(open_page(searcher.library.folder, title, groups, note or ""))
    else:
        if result.note and hits:
            print(result.note, file=sys.stderr)
        _print_lines(groups, numbered=args.groups)
        if protocol and hits:
            show_contact_sheet([hit.id for group in groups for hit in group], protocol)
    if not hits:
        print(_reason(args), file=sys.stderr)
    return 0 if hits else 1


def _image_protocol(args: argparse.Namespace) -> str | None:
    """How the terminal shows images, if it can; --show asks it, by default its name decides."""
    if args.show is False:
        return None
    protocol = terminal_protocol(ask=args.show is True)
    if args.show and protocol is None:
        raise OptionError(
            "--show needs a terminal that shows images (kitty, iTerm2 or sixel); use --open for a "
            "page in the browser"
        )
    return protocol


def _reason(args: argparse.Namespace) -> str:
    """Why there is no hit."""
    if getattr(args, "min_probability", None):
        return f"no photo is as probable as {args.min_probability:.0%}; lower --min-probability"
    return f"no photo passes the filter {args.filter!r}; change it" if args.filter else EMPTY


def _print_lines(groups: list[list[SearchHit]], numbered: bool) -> None:
    for number, group in enumerate(groups, start=1):
        if numbered:
            print(f"group {number}")
        for hit in group:
            print(f"{hit.label:>6}  {printable(hit.id)}")
            for copy in hit.copies:
                print(f"{'':6}  same content: {printable(copy)}")


def _print_json(content: Any) -> None:
    print(json.dumps(content, indent=2, ensure_ascii=False))


def _title(args: argparse.Namespace) -> str:
    """The query as the heading of a page."""
    parts = [*args.text, *([f"similar to {args.image}"] if args.image else [])]
    parts += [f"and {text}" for text in args.required] + [f"not {text}" for text in args.excluded]
    parts += [f"where {args.filter}"] if args.filter else []
    modes = (("in groups", args.groups), ("coverage", args.coverage))
    return " ".join([*parts, *(f"({name})" for name, on in modes if on)])
