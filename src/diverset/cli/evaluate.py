"""The verb `diverset evaluate`."""

from __future__ import annotations

import argparse
from pathlib import Path

from diverset.cli.options import (
    MODEL,
    add_cache,
    add_data_options,
    add_device,
    add_flag,
    add_precision,
    count,
    element,
    path,
)
from diverset.cli.verb import Verbs, add_verb, require


def add_evaluate(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "evaluate",
        "measure the recalls of a model, or of several models as an ensemble",
        _evaluate,
        "diverset evaluate runs/a --data flickr8k --split val",
        "diverset evaluate runs/a runs/b --similarity chamfer --json > both.json",
        "diverset evaluate runs/a --against runs/b --data flickr8k --split val",
        "diverset evaluate photos --data my-data/captions.csv --images my-photos --split all",
        "diverset evaluate photos --data coco --split test --eccv",
        "diverset evaluate photos --data coco --split test --protocol coco_1k",
        'diverset evaluate "models/clip?crops=5" --data flickr8k --split val',
    )
    parser.add_argument("models", nargs="+", type=path, metavar="RUN_OR_MODEL", help=MODEL)
    group = parser.add_argument_group("data (default: from the recipe of the run)")
    group.add_argument(
        "--data", dest="root", type=path, metavar="DATA", help="folder or caption file"
    )
    add_data_options(group)
    group.add_argument("--split", help="name of the split, or all (default: validation)")
    parser.add_argument("--protocol", default="full", help="full or coco_1k")
    parser.add_argument(
        "--similarity", help="smooth_chamfer, chamfer or mil (default: the model's)"
    )
    parser.add_argument(
        "--alpha", type=float, help="alpha of smooth-Chamfer (default: the model's)"
    )
    for side in ("image", "text"):
        parser.add_argument(
            f"--{side}-elements",
            type=element,
            nargs="+",
            metavar="N",
            help=f"only these elements of the {side} sets, counted from 1",
        )
    parser.add_argument(
        "--against",
        nargs="+",
        type=path,
        metavar="RUN_OR_MODEL",
        help="compare with this model or ensemble by a paired bootstrap over images",
    )
    _add_measurements(parser.add_argument_group("additional measurements"))
    add_precision(parser, "precision of the encoders and of cross-attention")
    add_cache(parser)
    add_device(parser)
    add_flag(parser, "--json", "print JSON")


def _add_measurements(group: argparse._ArgumentGroup) -> None:
    add_flag(group, "--eccv", "ECCV Caption and CxC, on COCO's test split")
    group.add_argument("--cxc", type=path, metavar="FOLDER", help="CxC with these annotations")
    group.add_argument(
        "--objects",
        type=path,
        metavar="LABELS",
        help="object names as queries, from a TSV file, plain or .gz, of image ids and objects",
    )
    group.add_argument(
        "--hubness",
        type=count,
        nargs="?",
        const=512,
        metavar="QUERIES",
        help="recalls with hubness correction, by the stored query bank or a new one of this many "
        "training queries (default: 512)",
    )
    add_flag(group, "--save-bank", "store the new query bank with the model")


def _evaluate(args: argparse.Namespace) -> int:
    require("yaml", "rich")
    import json
    from dataclasses import asdict, fields

    from diverset.evaluation.options import EvalOptions
    from diverset.evaluation.run import compare, evaluate

    options = EvalOptions(
        **{field.name: getattr(args, field.name) for field in fields(EvalOptions)}
    )
    cache, device = Path(args.cache), args.device
    if args.against:
        report, other, comparison = compare(
            args.models, args.against, options, cache=cache, device=device
        )
        text = f"{report}\n\nagainst {' + '.join(args.against)}: {comparison}"
        content = {"against": other.to_dict(), "comparison": asdict(comparison)}
    else:
        report = evaluate(args.models, options, cache=cache, device=device)
        text, content = str(report), {}
    content = report.to_dict() | content
    print(json.dumps(content, indent=2, allow_nan=False) if args.json else text)
    return 0
