"""The verbs `diverset import-reference` and `export-model`."""

from __future__ import annotations

import argparse
from pathlib import Path

from diverset.cli.options import count, path
from diverset.cli.verb import Verbs, add_verb, require


def add_import_reference(verbs: Verbs) -> None:
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
    parser.add_argument("--heads", type=count, default=4, help="attention heads, not in the file")


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


def add_export_model(verbs: Verbs) -> None:
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
        help="type of the stored weights",
    )


def _export_model(args: argparse.Namespace) -> int:
    require("yaml")
    from diverset.training.export import export

    model = export(args.run_folder, Path(args.folder), args.dtype)
    print(f"{args.folder}: {args.dtype}, fingerprint {model.fingerprint()}")
    return 0
