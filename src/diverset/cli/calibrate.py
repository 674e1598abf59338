"""The verb `diverset calibrate`."""

from __future__ import annotations

import argparse

from diverset.cli.options import add_data_options, add_flag, path
from diverset.cli.verb import Verbs, add_verb, require


def add_calibrate(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "calibrate",
        "fit the probabilities that searches show, on images that the model has not seen",
        _calibrate,
        "diverset calibrate runs/a --data flickr8k --split val",
        "diverset calibrate photos --data datasets --split coco:val flickr8k:val",
        'diverset calibrate "models/clip?crops=5" --data flickr8k --split val',
        notes=(
            "Needs 50 captioned images or more. Writes calibration.json into the folder of the\n"
            "model: coefficients, thresholds, and how many training captions contain each word."
        ),
    )
    parser.add_argument(
        "model",
        type=path,
        metavar="RUN_OR_MODEL",
        help="a folder, a shipped model (photos), or a CLIP or SigLIP by folder or hub name",
    )
    parser.add_argument(
        "--data", dest="root", type=path, metavar="DATA", help="folder or caption file"
    )
    add_data_options(parser)
    parser.add_argument(
        "--split", nargs="+", help="one or more splits (default: the validation split)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the random queries")
    add_flag(parser, "--dry-run", "only measure, write nothing")


def _calibrate(args: argparse.Namespace) -> int:
    require("yaml")
    from diverset.evaluation.calibrate import calibrate
    from diverset.evaluation.calibration import CALIBRATION_FILE
    from diverset.evaluation.options import EvalOptions
    from diverset.model.folder import model_folder

    options = EvalOptions(root=args.root, format=args.format, file=args.file, images=args.images)
    fitted, report = calibrate(args.model, options, args.split, args.seed, not args.dry_run)
    print(report)
    if not args.dry_run:
        print(f"{model_folder(args.model) / CALIBRATION_FILE}: fitted on {fitted.fitted_on}")
    return 0
