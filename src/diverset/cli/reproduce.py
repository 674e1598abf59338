"""The verbs `diverset reproduce` and `demo`."""

from __future__ import annotations

import argparse
from pathlib import Path

from diverset.cli.options import add_cache, add_device, add_flag, count, path
from diverset.cli.verb import TRAINING, Verbs, add_verb, require


def add_reproduce(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "reproduce",
        "reproduce a table or figure of the paper, training the runs it needs",
        _reproduce,
        "diverset reproduce similarity --recipe scenes",
        "diverset reproduce all --recipe flickr8k_minilm --data.root flickr8k --jobs 2",
        "diverset reproduce hyperparameters --recipe scenes --dry-run",
        notes="exit code 1: some runs failed; the tables name them",
        takes_overrides=True,
    )
    parser.add_argument(
        "study",
        help="all, comparison, similarity, architecture, variance, hyperparameters, elements, "
        "slot-attention, noisy-correspondence, cost, attention, tsne, ambiguity",
    )
    parser.add_argument(
        "--recipe",
        required=True,
        type=path,
        help="a YAML file or the name of a recipe; each row of a table changes some of its options",
    )
    parser.add_argument("--seeds", type=count, default=2, help="runs per row")
    parser.add_argument(
        "--jobs", type=int, default=1, help="parallel runs; 0 trains in this process"
    )
    parser.add_argument("--split", default="val", help="val or test")
    parser.add_argument("--runs", type=path, default="runs/reproduce", help="folder of runs")
    parser.add_argument("--out", type=path, help="folder of tables (default: results/RECIPE)")
    parser.add_argument("--images", type=int, nargs="+", help="attention: indices of the images")
    parser.add_argument(
        "--skip", nargs="+", help="comparison: methods to skip, e.g. SCAN, which is slow"
    )
    add_flag(
        parser,
        "--no-ensembles",
        'comparison: leave out the "+" rows of two seeds, which score all pairs again; IMRAM takes '
        "half an hour for 1,000 images",
    )
    add_cache(parser)
    add_device(parser)
    add_flag(parser, "--dry-run", "list the missing runs and exit")


def _reproduce(args: argparse.Namespace) -> int:
    require(*TRAINING)
    require("matplotlib", extra="analysis")
    from dataclasses import replace

    from diverset.reproduce.experiment import open_experiment
    from diverset.reproduce.run_studies import check_options, run_studies

    check_options(args.study, args.seeds, args.jobs)
    experiment = open_experiment(
        args.recipe,
        args.overrides,
        Path(args.runs),
        Path(args.out) if args.out else None,
        args.split,
        Path(args.cache),
    )
    experiment = replace(
        experiment,
        device=args.device,
        seeds=args.seeds,
        jobs=args.jobs,
        images=tuple(args.images or ()),
        skip=tuple(args.skip or ()),
        ensembles=not args.no_ensembles,
    )
    return run_studies(args.study, experiment, args.dry_run)


def add_demo(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "demo",
        "train sets and one vector on generated scenes, write a report, index unseen scenes",
        _demo,
        "diverset demo",
        "diverset demo --out my-demo --epochs 2 --images 500",
    )
    parser.add_argument("--out", type=path, default="runs/demo", help="folder of the demo")
    parser.add_argument("--seed", type=int, default=0, help="seed of the training")
    parser.add_argument("--epochs", type=count, help="epochs of both stages (default: 5 and 8)")
    parser.add_argument(
        "--images", type=count, help="training scenes of both stages (default: 3000 and 6000)"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        choices=range(3),
        default=2,
        help="parallel trainings; 0 trains in this process",
    )


def _demo(args: argparse.Namespace) -> int:
    require(*TRAINING)
    from diverset.reproduce.demo import Budget, run_demo

    budget = Budget(seed=args.seed, jobs=args.jobs)
    run_demo(Path(args.out), budget.limited(args.epochs, args.images))
    return 0
