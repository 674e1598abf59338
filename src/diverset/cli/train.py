"""The verb `diverset train`."""

from __future__ import annotations

import argparse
from pathlib import Path

from diverset.cli.options import add_cache, add_device, add_flag, count, path
from diverset.cli.verb import TRAINING, Verbs, add_verb, require


def add_train(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "train",
        "train a model by a recipe, or resume a run",
        _train,
        "diverset train flickr8k_minilm --out runs/a --data.root flickr8k",
        "diverset train my-recipe.yaml --out runs/b --train.seed 1 --optim.lr 5e-4",
        "diverset train photos --out runs/c --init photos --optim.lr 1e-4",
        "diverset train scenes --out runs/d --method IMRAM --data.root scenes",
        "diverset train flickr8k_minilm --options",
        notes=(
            "The same command resumes an interrupted run; a larger --train.epochs continues a\n"
            "finished one."
        ),
        takes_overrides=True,
    )
    parser.add_argument(
        "recipe",
        type=path,
        help="a YAML file, or the name of a recipe; its values can be overridden, see --options",
    )
    parser.add_argument(
        "--out", type=path, help="folder of the run; needed unless --options is given"
    )
    parser.add_argument(
        "--init",
        type=path,
        metavar="MODEL",
        help="start from the weights of this model: photos, or the folder of a model or a run "
        "(short for --train.initial_model)",
    )
    parser.add_argument(
        "--method",
        help="another method on the recipe's backbones and data: VSE++, VSE-infinity, VSRN, PVSE, "
        "PCME, SCAN, CAAN, IMRAM, SGR, SAF, NAAF, or the control 'ours, K = 1'",
    )
    add_cache(parser)
    add_device(parser)
    parser.add_argument("--processes", type=count, default=1, help="processes on this machine")
    add_flag(parser, "--options", "list every option of the recipe and exit")


def _train(args: argparse.Namespace) -> int:
    require(*TRAINING)
    from diverset.reproduce.methods import with_method
    from diverset.reproduce.runs import check_scenes
    from diverset.training.train import parse_recipe, train

    if not (args.out or args.options):
        args.parser.error("give --out, the folder of the run")
    # With "--help" it prints all options and exits.
    overrides = ["--help"] if args.options else args.overrides
    if args.init is not None:
        overrides = [*overrides, "--train.initial_model", args.init]
    recipe = parse_recipe(args.recipe, overrides)
    if args.method is not None:
        recipe = with_method(recipe, args.method)
    check_scenes(recipe.data)
    train(recipe, Path(args.out), Path(args.cache), args.device, args.processes)
    return 0
