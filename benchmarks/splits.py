"""A run and the sets of one of its splits, as several benchmarks need them."""

import argparse
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor

from diverset import Model
from diverset.data import Collection
from diverset.training.encoding import encode_split
from diverset.training.evaluating import default_cache, open_run
from diverset.training.opening import open_split
from diverset.training.settings import DataConfig


class Encoded(NamedTuple):
    model: Model
    data: DataConfig
    collection: Collection
    images: Tensor
    texts: Tensor


def add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run")
    parser.add_argument("--data", default="", help="folder of the data, if it has moved")
    parser.add_argument("--split", default="val")
    parser.add_argument("--seed", type=int, default=0)


def encoded(given: argparse.Namespace) -> Encoded:
    model, data = open_run(given.run)
    data = replace(data, root=given.data) if given.data else data
    split = open_split(
        data, given.split, model.architecture, model.vocabulary, default_cache(), model=model
    )
    return Encoded(model, data, split.collection, *encode_split(model, split))
