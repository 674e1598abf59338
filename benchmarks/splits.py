"""A model and the encoded sets of one split, for several benchmarks."""

import argparse
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from diverset import Model
from diverset.data import CaptionDataset
from diverset.evaluation.open_run import open_run
from diverset.evaluation.options import EvalOptions
from diverset.recipe.config import DataConfig
from diverset.recipe.encode import encode_split
from diverset.recipe.splits import open_split
from diverset.runtime.folders import user_cache_folder


class Encoded(NamedTuple):
    model: Model
    data: DataConfig
    dataset: CaptionDataset
    images: Tensor
    texts: Tensor


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN_OR_MODEL")
    parser.add_argument("--data", help="folder of the data, if it has moved")
    parser.add_argument("--split", default="val", help="(default: val)")
    parser.add_argument("--limit", type=int, help="only this many images, for a quick run")
    parser.add_argument("--seed", type=int, default=0)


def encoded(args: argparse.Namespace) -> Encoded:
    model, data = open_run(args.run)
    data = EvalOptions(root=args.data).data_config(data)
    data = replace(data, limit=args.limit) if args.limit else data
    split = open_split(data, args.split, model, user_cache_folder())
    return Encoded(model, data, split.dataset, *encode_split(model, split))
