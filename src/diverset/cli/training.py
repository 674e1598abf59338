"""The verbs of training: demo, train, evaluate, import-reference."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from diverset.cli.verb import Verbs, add_verb, cache_folder, need
from diverset.errors import OptionError

if TYPE_CHECKING:
    from diverset.evaluation import Comparison


def add_verbs(verbs: Verbs[argparse.ArgumentParser]) -> None:
    demo = add_verb(
        verbs,
        "demo",
        "draw pictures, train sets and one vector on them, compare, and write a report",
        "diverset demo\n  diverset demo --out my-demo --epochs 3 --pictures 500",
    )
    demo.add_argument("--out", default="runs/demo", help="folder (default: runs/demo)")
    demo.add_argument("--seed", type=int, default=0)
    demo.add_argument("--epochs", type=int, default=0, help="fewer for a quick look")
    demo.add_argument("--pictures", type=int, default=2000, help="to train on (default: 2000)")
    demo.set_defaults(run=_demo)

    train = add_verb(
        verbs,
        "train",
        "train a recipe, or go on with a run that was stopped",
        "diverset train recipes/flickr8k_minilm.yaml --out runs/a --data.root flickr8k\n"
        "  diverset train recipes/scenes.yaml --out runs/b --train.seed 1 --optim.lr 5e-4",
    )
    train.add_argument("recipe", help="a YAML file")
    train.add_argument("--out", required=True, help="the run's folder")
    train.add_argument("--cache", help="folder for features of frozen networks")
    train.add_argument("--device", default="auto", help="auto, cpu, cuda (default: auto)")
    train.add_argument("--processes", type=int, default=1, help="how many (default: 1)")
    train.add_argument(
        "--options", action="store_true", help="list every option of a recipe and leave"
    )
    train.set_defaults(run=_train, takes_overrides=True)

    evaluate = add_verb(
        verbs,
        "evaluate",
        "recalls of a run, or of several as an ensemble",
        "diverset evaluate runs/a --data flickr8k --split val\n"
        "  diverset evaluate runs/a runs/b --similarity chamfer --json both.json\n"
        "  diverset evaluate runs/a --against runs/b",
    )
    evaluate.add_argument(
        "runs", nargs="+", metavar="RUN", help="folder of a run or exported model, or photos"
    )
    evaluate.add_argument("--data", default="", help="folder of the data, if it has moved")
    evaluate.add_argument("--split", default="", help="default: the validation split")
    evaluate.add_argument("--protocol", default="full", help="full or coco_1k (default: full)")
    evaluate.add_argument("--similarity", default="", help="instead of the model's own")
    evaluate.add_argument("--alpha", type=float, default=0.0, help="of smooth-Chamfer")
    evaluate.add_argument("--image-elements", type=int, nargs="+", help="only these, from 0")
    evaluate.add_argument("--text-elements", type=int, nargs="+", help="only these, from 0")
    evaluate.add_argument(
        "--against", nargs="+", metavar="RUN", help="paired bootstrap against this run or ensemble"
    )
    evaluate.add_argument("--eccv", action="store_true", help="ECCV Caption too (COCO test)")
    evaluate.add_argument("--cxc", default="", help="CxC too, from this folder of annotations")
    evaluate.add_argument(
        "--hubness",
        type=int,
        nargs="?",
        const=512,
        default=0,
        metavar="QUERIES",
        help="also corrected by this many training queries (default: 512), or the stored bank",
    )
    evaluate.add_argument("--save-bank", action="store_true", help="store them with the model")
    evaluate.add_argument("--precision", default="float32", choices=["float32", "bfloat16"])
    evaluate.add_argument("--cache", help="folder for features of frozen networks")
    evaluate.add_argument("--device", default="cpu")
    evaluate.add_argument("--json", help="write the report to this file as well")
    evaluate.set_defaults(run=_evaluate)

    export = add_verb(
        verbs,
        "export-model",
        "write a run's best model, with its recipe, as a small folder",
        "diverset export-model runs/a models/a\n"
        "  diverset export-model runs/a models/a --dtype float32",
    )
    export.add_argument("source", metavar="RUN", help="folder of a run")
    export.add_argument("folder", help="where to write the model")
    export.add_argument("--dtype", default="float16", choices=["float16", "bfloat16", "float32"])
    export.set_defaults(run=_export)

    reference = add_verb(
        verbs,
        "import-reference",
        "turn a checkpoint of the paper's released code into a diverset model",
        "diverset import-reference model_best.pth.tar coco_vocab.json models/coco",
    )
    reference.add_argument("checkpoint", help="*.pth.tar: region features and bi-GRU")
    reference.add_argument("vocabulary", help="the vocabulary it was trained with, JSON or pickle")
    reference.add_argument("folder", help="where to write the model")
    reference.add_argument(
        "--heads", type=int, default=4, help="attention heads, not told by the file (default: 4)"
    )
    reference.set_defaults(run=_import_reference)


def _demo(given: argparse.Namespace) -> int:
    need("yaml", "lightning_fabric", "tensorboard", "rich")
    from diverset.demo import run

    run(Path(given.out), given.seed, given.epochs, given.pictures)
    return 0


def _train(given: argparse.Namespace) -> int:
    need("yaml", "lightning_fabric", "tensorboard", "rich")
    from diverset.training.command import parse_recipe, train

    overrides = ["--help"] if given.options else given.overrides
    recipe = parse_recipe(given.recipe, overrides)
    train(recipe, Path(given.out), cache_folder(given), given.device, given.processes)
    return 0


def _evaluate(given: argparse.Namespace) -> int:
    need("yaml", "rich")
    from diverset.evaluation import paired_bootstrap
    from diverset.training.evaluating import Asked, evaluate

    asked = Asked(
        root=given.data,
        split=given.split,
        protocol=given.protocol,
        similarity=given.similarity,
        alpha=given.alpha,
        image_elements=given.image_elements,
        text_elements=given.text_elements,
        eccv=given.eccv,
        cxc=given.cxc,
        precision=given.precision,
        hubness=given.hubness,
        save_bank=given.save_bank,
    )
    cache = cache_folder(given)
    report = evaluate(given.runs, asked, cache=cache, device=given.device)
    print(report)
    if given.against:
        other = evaluate(given.against, asked, cache=cache, device=given.device)
        if other.ranks is None or report.ranks is None:
            raise OptionError(f"protocol {given.protocol} keeps no ranks to compare; use full")
        print(_difference(paired_bootstrap(other.ranks, report.ranks), given.against))
    if given.json:
        Path(given.json).write_text(report.to_json() + "\n", encoding="utf-8")
    return 0


def _export(given: argparse.Namespace) -> int:
    need("yaml")
    from diverset.training.exporting import export

    model = export(given.source, Path(given.folder), given.dtype)
    print(f"{given.folder}: {given.dtype}, fingerprint {model.fingerprint()}")
    return 0


def _difference(found: Comparison, against: Sequence[str]) -> str:
    return (
        f"against {' + '.join(against)} ({found.first:.1f}): RSUM {found.difference:+.1f}, "
        f"{found.confidence:.0%} interval {found.low:+.1f} to {found.high:+.1f}, "
        f"p = {found.p_value:.3f} (paired bootstrap, {found.resamples:,} drawings)"
    )


def _import_reference(given: argparse.Namespace) -> int:
    from diverset.model import Model

    model = Model.from_reference(given.checkpoint, given.vocabulary, given.heads)
    model.save_pretrained(given.folder)
    chosen = model.architecture
    print(
        f"{given.folder}: K = {chosen.image_set.size} and {chosen.text_set.size}, "
        f"D = {chosen.dim}, T = {chosen.image_set.iterations}, alpha = "
        f"{chosen.similarity.alpha:g}, {chosen.text.vocabulary_size} words, "
        f"fingerprint {model.fingerprint()}"
    )
    return 0
