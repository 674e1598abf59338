"""The methods of Tab. 1 and 2 as variants of a recipe.

All share the recipe's backbones, data and schedule; a method has its own set module, similarity and
loss. A recipe file of the method in the folder of the given recipe (f30k_scan.yaml for
f30k_regions_bigru.yaml) takes precedence.
"""

from __future__ import annotations

from typing import Any

from diverset.errors import check_choice
from diverset.recipe.config import Recipe
from diverset.reproduce.paper_numbers import OURS
from diverset.reproduce.variants import Variant, both_sets, with_changes

CONTROL = "ours, K = 1"
NO_REGULARIZERS = {"loss.mmd": 0.0, "loss.diversity": 0.0}
MEANS = {"SGRAF": ("SGR", "SAF")}
"""Methods that are the mean similarity of two others, trained separately."""
HALVES = tuple(part for parts in MEANS.values() for part in parts)
CAPTIONING = 1 / 128
"""VSRN adds the captioning loss to the sum over 128 captions; the recipe's loss is their mean."""
MAX_CELLS = 144
"""Cells of a map, if the recipe does not fix their number by a grid."""


def methods(recipe: Recipe) -> tuple[Variant, ...]:
    """All methods as variants of a recipe; ours is the last."""
    return (
        *_single_vectors(recipe),
        *_sets(),
        *_cross_attention(recipe),
        Variant(CONTROL, both_sets(size=1)),
        Variant(OURS),
    )


def with_method(recipe: Recipe, name: str) -> Recipe:
    """A recipe with the set module, similarity and losses of another method.

    >>> with_method(Recipe(), "PVSE").model.similarity.kind
    'mil'
    """
    variants = {variant.name: variant for variant in methods(recipe)}
    check_choice("method", name, variants)
    return with_changes(recipe, variants[name].changes)


def _single_vectors(recipe: Recipe) -> tuple[Variant, ...]:
    is_bigru = recipe.model.text.kind == "bigru"
    # VSE++ and VSRN read the last state of a forward GRU.
    text: dict[str, Any] = {"model.text.pooling": "average"}
    if is_bigru:
        text = {"model.text.pooling": "last", "model.text.bidirectional": False}
    gpo = {"model.image.pooling": "gpo", "model.text.pooling": "gpo"}
    single = both_sets(kind="pooled", size=1) | NO_REGULARIZERS
    graph = {
        "model.image.graph": "coco" if recipe.data.file == "dataset_coco.json" else "f30k",
        "model.image.pooling": None,
        "loss.captioning": CAPTIONING,
        "loss.captioning_width": max(1, recipe.model.dim // 4),
    }
    return (
        Variant("VSE++", single | text | {"model.image.pooling": "average"}, recipe="vsepp"),
        Variant("VSE-infinity", single | gpo, recipe="vse_infinity"),
        Variant("VSRN", single | text | graph, recipe="vsrn"),
    )


def _sets() -> tuple[Variant, ...]:
    return (
        Variant(
            "PVSE",
            both_sets(kind="pie_net", size=2)
            | {
                "model.similarity.kind": "mil",
                "loss.margin": 0.1,
                "loss.mmd": 0.01,
                "loss.diversity": 0.0,
                "loss.gram_diversity": 0.1,
            },
            recipe="pvse",
        ),
        Variant(
            "PCME",
            both_sets(kind="gaussian", size=7)
            | NO_REGULARIZERS
            | {
                "model.similarity.kind": "match_probability",
                "loss.kind": "soft_contrastive",
                "loss.bottleneck": 1e-5,
                "loss.contrastive": 0.0,
                "loss.start": None,
                "loss.start_epochs": 0,
            },
            recipe="pcme",
        ),
    )


def _cross_attention(recipe: Recipe) -> tuple[Variant, ...]:
    model, train = recipe.model, recipe.train
    # All local features, one caption per image, smaller batches to limit memory.
    shared: dict[str, Any] = {
        **both_sets(kind="local"),
        **NO_REGULARIZERS,
        "train.batch_size": min(64, train.batch_size),
        "train.captions": 1,
        "train.evaluate_every": min(train.epochs, max(2, train.evaluate_every)),  # minutes each
    }
    if model.text.kind == "bigru":
        shared["model.text.local"] = "states"
    cells = MAX_CELLS if model.image.grid is None else model.image.grid**2
    slots = 36 if model.image.kind == "regions" else cells
    # Inner widths in the published proportion to D = 1024.
    comparison = {"max_regions": slots, "inner_width": max(1, model.dim // 4)}
    similarities: dict[str, dict[str, Any]] = {
        "SCAN": {"kind": "scan"},
        "CAAN": {"kind": "caan", "inner_width": max(1, model.dim // 8)},
        "IMRAM": {"kind": "imram"},
        "SGR": {"kind": "sgr", **comparison},
        "SAF": {"kind": "saf", **comparison},
        "NAAF": {"kind": "naaf", "attention": 20.0},
    }
    return tuple(
        Variant(
            name,
            shared | {f"model.similarity.{option}": value for option, value in options.items()},
            recipe=options["kind"],
        )
        for name, options in similarities.items()
    )
