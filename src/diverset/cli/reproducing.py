"""`diverset reproduce`: the paper's tables and figures."""

from __future__ import annotations

import argparse
from pathlib import Path

from diverset.cli.verb import Verbs, add_verb, cache_folder, need


def add_verbs(verbs: Verbs[argparse.ArgumentParser]) -> None:
    reproduce = add_verb(
        verbs,
        "reproduce",
        "make a table or figure of the paper again, training what it needs",
        "diverset reproduce similarity --recipe recipes/scenes.yaml\n"
        "  diverset reproduce all --recipe recipes/flickr8k_minilm.yaml --data.root flickr8k "
        "--jobs 2\n"
        "  diverset reproduce hyperparameters --recipe recipes/scenes.yaml --dry-run",
    )
    reproduce.add_argument(
        "what",
        help="all, comparison, similarity, architecture, variance, hyperparameters, elements, "
        "slot-attention, noisy-correspondence, cost, attention, tsne",
    )
    reproduce.add_argument("--recipe", required=True, help="a YAML file; rows are changes to it")
    reproduce.add_argument("--seeds", type=int, default=2, help="runs of each row (default: 2)")
    reproduce.add_argument(
        "--jobs", type=int, default=1, help="runs side by side; 0 trains in this process"
    )
    reproduce.add_argument("--split", default="val", help="to report: val (default) or test")
    reproduce.add_argument(
        "--runs", default="runs/reproduce", help="folder of runs (default: runs/reproduce)"
    )
    reproduce.add_argument("--out", help="folder of tables (default: results/RECIPE)")
    reproduce.add_argument("--images", type=int, nargs="+", help="attention: which pictures")
    reproduce.add_argument(
        "--skip", nargs="+", help="comparison: methods to leave out, as SCAN, which takes long"
    )
    reproduce.add_argument("--cxc", default="", help="noisy-correspondence: CxC's annotations")
    reproduce.add_argument("--cache", help="folder for features of frozen networks")
    reproduce.add_argument("--device", default="auto", help="auto, cpu, cuda (default: auto)")
    reproduce.add_argument(
        "--dry-run", action="store_true", help="list the runs that are needed and leave"
    )
    reproduce.set_defaults(run=_reproduce, takes_overrides=True)


def _reproduce(given: argparse.Namespace) -> int:
    need("yaml", "lightning_fabric", "tensorboard", "rich")
    need("matplotlib", extra="analysis")
    from dataclasses import replace

    from diverset.analysis.bench import open_bench
    from diverset.analysis.command import check_asked, reproduce

    check_asked(given.what, given.seeds, given.jobs)
    bench = open_bench(
        given.recipe,
        given.overrides,
        Path(given.runs),
        Path(given.out) if given.out else None,
        given.split,
        cache_folder(given),
    )
    bench = replace(
        bench,
        device=given.device,
        seeds=given.seeds,
        jobs=given.jobs,
        images=tuple(given.images or ()),
        cxc=given.cxc,
        skip=tuple(given.skip or ()),
    )
    return reproduce(given.what, bench, given.dry_run)
