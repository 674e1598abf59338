"""Verbs of research: data, train, evaluate, reproduce, demo, import-reference, export-model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from diverset.cli.calibrate import add_calibrate
from diverset.cli.verb import Verbs, add_verb, cache_folder, element, path, require

if TYPE_CHECKING:
    from diverset.recipe.config import DataConfig

TRAINING = ("yaml", "lightning_fabric", "tensorboard", "rich")  # modules that training imports


def add_verbs(verbs: Verbs) -> None:
    _add_data(verbs)
    _add_train(verbs)
    _add_evaluate(verbs)
    add_calibrate(verbs)
    _add_reproduce(verbs)
    _add_demo(verbs)
    _add_import_reference(verbs)
    _add_export_model(verbs)


def _add_data(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "data",
        "show what a dataset or the data of a recipe holds, and check its images",
        _data,
        "diverset data flickr8k_minilm --data.root flickr8k",
        "diverset data flickr8k --quick",
        "diverset data my-data/captions.csv --images photos",
        "diverset data coco --file captions_train2014.json,captions_val2014.json \\",
        "    --images images --split coco_train_ids.npy",
        "",
        "exit code 1: image files are missing or broken, or a split cannot be read",
        takes_overrides=True,
    )
    parser.add_argument(
        "source",
        type=path,
        metavar="RECIPE_OR_DATA",
        help="a YAML file, the name of a recipe, a caption file or a folder",
    )
    _add_data_options(parser.add_argument_group("data that is not from a recipe"), "all")
    parser.add_argument("--quick", action="store_true", help="do not decode the images")
    parser.add_argument("--json", action="store_true", help="print JSON, with all file names")


def _add_train(verbs: Verbs) -> None:
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
        "",
        "The same command resumes an interrupted run; a larger --train.epochs continues a",
        "finished one.",
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
        "PCME, SCAN, CAAN, IMRAM, SGR, SAF, NAAF",
    )
    _add_cache(parser)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda (default: auto)")
    parser.add_argument(
        "--processes", type=int, default=1, help="processes on this machine (default: 1)"
    )
    parser.add_argument(
        "--options", action="store_true", help="list every option of the recipe and exit"
    )


def _add_evaluate(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "evaluate",
        "measure the recalls of a model, or of several models as an ensemble",
        _evaluate,
        "diverset evaluate runs/a --data flickr8k --split val",
        "diverset evaluate runs/a runs/b --similarity chamfer --json both.json",
        "diverset evaluate runs/a --against runs/b --data flickr8k --split val",
        "diverset evaluate photos --data my-data/captions.csv --images my-photos --split all",
        "diverset evaluate photos --data coco --split test --eccv",
        "diverset evaluate photos --data coco --split test --protocol coco_1k",
        'diverset evaluate "models/clip?crops=5" --data flickr8k --split val',
    )
    parser.add_argument(
        "models",
        nargs="+",
        type=path,
        metavar="RUN_OR_MODEL",
        help="a folder, a shipped model (photos), or a CLIP or SigLIP by folder or hub name",
    )
    group = parser.add_argument_group("data (default: from the recipe of the run)")
    group.add_argument(
        "--data", dest="root", type=path, metavar="DATA", help="folder or caption file"
    )
    _add_data_options(group, "validation")
    parser.add_argument("--protocol", default="full", help="full or coco_1k (default: full)")
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
    parser.add_argument("--eccv", action="store_true", help="also ECCV Caption and CxC (COCO test)")
    parser.add_argument("--cxc", type=path, metavar="FOLDER", help="also CxC, by these annotations")
    parser.add_argument(
        "--objects",
        type=path,
        metavar="LABELS",
        help="also object names as queries: a TSV file, plain or .gz, of image id and objects",
    )
    parser.add_argument(
        "--hubness",
        type=int,
        nargs="?",
        const=512,
        metavar="QUERIES",
        help="also with hubness correction, by the stored query bank or a new one of this many "
        "training queries (default: 512)",
    )
    parser.add_argument(
        "--save-bank", action="store_true", help="store the new query bank with the model"
    )
    parser.add_argument(
        "--precision",
        default="float32",
        choices=["float32", "bfloat16"],
        help="of the encoders (default: float32)",
    )
    _add_cache(parser)
    parser.add_argument("--device", default="cpu", help="cpu, cuda (default: cpu)")
    parser.add_argument("--json", type=path, metavar="FILE", help="also write the report as JSON")


def _add_reproduce(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "reproduce",
        "reproduce a table or figure of the paper, training the runs it needs",
        _reproduce,
        "diverset reproduce similarity --recipe scenes",
        "diverset reproduce all --recipe flickr8k_minilm --data.root flickr8k --jobs 2",
        "diverset reproduce hyperparameters --recipe scenes --dry-run",
        "",
        "exit code 1: some runs failed; the tables name them",
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
    parser.add_argument("--seeds", type=int, default=2, help="runs per row (default: 2)")
    parser.add_argument(
        "--jobs", type=int, default=1, help="parallel runs; 0 trains in this process (default: 1)"
    )
    parser.add_argument("--split", default="val", help="val or test (default: val)")
    parser.add_argument(
        "--runs",
        type=path,
        default="runs/reproduce",
        help="folder of runs (default: runs/reproduce)",
    )
    parser.add_argument("--out", type=path, help="folder of tables (default: results/RECIPE)")
    parser.add_argument("--images", type=int, nargs="+", help="attention: indices of the images")
    parser.add_argument(
        "--skip", nargs="+", help="comparison: methods to skip, e.g. SCAN, which is slow"
    )
    parser.add_argument(
        "--cxc", type=path, metavar="FOLDER", help="noisy-correspondence: CxC annotations"
    )
    _add_cache(parser)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda (default: auto)")
    parser.add_argument("--dry-run", action="store_true", help="list the missing runs and exit")


def _add_demo(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "demo",
        "draw images, train sets and single vectors on them, and write a report",
        _demo,
        "diverset demo",
        "diverset demo --out my-demo --epochs 3 --images 500",
    )
    parser.add_argument("--out", type=path, default="runs/demo", help="folder (default: runs/demo)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--epochs", type=int, help="fewer for a quick look (default: 10)")
    parser.add_argument("--images", type=int, default=2000, help="for training (default: 2000)")


def _add_import_reference(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "import-reference",
        "convert a checkpoint of the paper's released code into a model folder",
        _import_reference,
        "diverset import-reference model_best.pth.tar coco_vocab.json models/coco",
    )
    parser.add_argument("checkpoint", type=path, help="*.pth.tar with region features and bi-GRU")
    parser.add_argument("vocabulary", type=path, help="vocabulary of its training, JSON or pickle")
    parser.add_argument("folder", type=path, help="folder for the model")
    parser.add_argument(
        "--heads", type=int, default=4, help="attention heads, not in the file (default: 4)"
    )


def _add_export_model(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "export-model",
        "write the best model of a run, with its recipe, as a small folder",
        _export_model,
        "diverset export-model runs/a models/a",
        "diverset export-model runs/a models/a --dtype float32",
    )
    parser.add_argument("run_folder", type=path, metavar="RUN", help="folder of a run")
    parser.add_argument("folder", type=path, help="folder for the model")
    parser.add_argument(
        "--dtype",
        default="float16",
        choices=["float16", "bfloat16", "float32"],
        help="(default: float16)",
    )


def _add_data_options(group: argparse._ArgumentGroup, default_split: str) -> None:
    group.add_argument("--format", help="karpathy, coco, precomp or table")
    group.add_argument("--file", help="caption file in the folder; several: with commas")
    group.add_argument("--images", type=path, metavar="FOLDER", help="images, relative to it")
    group.add_argument("--split", help=f"name of the split (default: {default_split})")


def _add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cache", type=path, help="folder for cached features of frozen backbones")


def _data(args: argparse.Namespace) -> int:
    import json
    from dataclasses import asdict

    from diverset.errors import DataError
    from diverset.recipe.datasets import DatasetReader
    from diverset.recipe.summary import SplitSummary, summarize
    from diverset.runtime.progress import Progress

    data, splits = _resolve_data(args)
    reader = DatasetReader(data, missing="keep")
    summaries: dict[str, SplitSummary] = {}
    errors: dict[str, DataError] = {}
    with Progress() as progress:
        for split in splits:
            try:
                dataset = reader.read(split)
            except DataError as error:  # the other splits are still worth showing
                errors[split] = error
            else:
                summaries[split] = summarize(dataset, None if args.quick else progress)
    if not summaries:
        raise next(iter(errors.values()))
    if args.json:
        values = {split: asdict(summary) for split, summary in summaries.items()}
        print(json.dumps(values | {k: {"error": str(v)} for k, v in errors.items()}, indent=2))
    else:
        for split, content in (summaries | errors).items():
            print(f"{split}\n{content}" if split in summaries else f"{split}\n  error: {content}")
    damaged = any(each.missing_files or each.broken_files for each in summaries.values())
    return int(damaged or bool(errors))


def _resolve_data(args: argparse.Namespace) -> tuple[DataConfig, list[str]]:
    """The data that the options of `diverset data` describe, and the names of its splits."""
    from diverset.recipe.datasets import recipe_splits
    from diverset.recipe.detect import detect_dataset, file_splits
    from diverset.recipe.named import named_recipes

    source = Path(args.source)
    is_named = not source.exists() and args.source in named_recipes()
    if is_named or source.suffix in (".yaml", ".yml"):
        require("yaml")
        from diverset.reproduce.runs import check_scenes
        from diverset.training.train import parse_recipe

        if args.format or args.file or args.images:
            args.parser.error("a recipe takes --data.format, --data.file and --data.images")
        data = parse_recipe(args.source, args.overrides).data
        check_scenes(data)
        return data, [args.split] if args.split else recipe_splits(data)
    if args.overrides:
        args.parser.error(f"unrecognized arguments: {' '.join(args.overrides)}")
    data = detect_dataset(source, format=args.format, file=args.file, images=args.images)
    return data, [args.split] if args.split else file_splits(data)


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
    train(recipe, Path(args.out), cache_folder(args), args.device, args.processes)
    return 0


def _evaluate(args: argparse.Namespace) -> int:
    require("yaml", "rich")
    import json
    from dataclasses import asdict, fields

    from diverset.evaluation.options import EvalOptions
    from diverset.evaluation.run import compare, evaluate

    options = EvalOptions(
        **{field.name: getattr(args, field.name) for field in fields(EvalOptions)}
    )
    where = {"cache": cache_folder(args), "device": args.device}
    if args.against:
        report, other, comparison = compare(args.models, args.against, options, **where)
        print(f"{report}\n\nagainst {' + '.join(args.against)} {comparison}")
        compared = {"against": other.to_dict(), "comparison": asdict(comparison)}
    else:
        report, compared = evaluate(args.models, options, **where), {}
        print(report)
    if args.json:
        content = json.dumps(report.to_dict() | compared, indent=2, allow_nan=False)
        Path(args.json).write_text(content + "\n", encoding="utf-8")
    return 0


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
        cache_folder(args),
    )
    experiment = replace(
        experiment,
        device=args.device,
        seeds=args.seeds,
        jobs=args.jobs,
        images=tuple(args.images or ()),
        cxc=args.cxc,
        skip=tuple(args.skip or ()),
    )
    return run_studies(args.study, experiment, args.dry_run)


def _demo(args: argparse.Namespace) -> int:
    require(*TRAINING)
    from diverset.reproduce.demo import run_demo

    run_demo(Path(args.out), args.seed, args.epochs, args.images)
    return 0


def _import_reference(args: argparse.Namespace) -> int:
    from diverset.model import Model

    model = Model.from_reference(args.checkpoint, args.vocabulary, args.heads)
    model.save_pretrained(args.folder)
    config = model.config
    print(
        f"{args.folder}: K = {config.image_set.size} and {config.text_set.size}, "
        f"D = {config.dim}, T = {config.image_set.iterations}, alpha = "
        f"{config.similarity.alpha:g}, {config.text.vocabulary_size} words, "
        f"fingerprint {model.fingerprint()}"
    )
    return 0


def _export_model(args: argparse.Namespace) -> int:
    require("yaml")
    from diverset.training.export import export

    model = export(args.run_folder, Path(args.folder), args.dtype)
    print(f"{args.folder}: {args.dtype}, fingerprint {model.fingerprint()}")
    return 0
