"""Fig. 4, A2 and A3: the attention map of every slot in every iteration, and nearest captions.

The nearest caption of an image element is the one with the nearest element among all captions of
the split. Maps need a grid of cells, so region features are rejected.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from diverset.data.images import open_image
from diverset.errors import OptionError
from diverset.model.encoder import evaluation_mode
from diverset.model.overlays import visible_part
from diverset.recipe.splits import image_paths
from diverset.reproduce.encoded_split import EncodedSplit, encode_run
from diverset.reproduce.experiment import Experiment
from diverset.reproduce.page import Page
from diverset.reproduce.plots import COLOURS, GREEN, GREY, new_figure, save_figure
from diverset.reproduce.runs import Failed
from diverset.reproduce.study import Study
from diverset.reproduce.tables import markdown_table
from diverset.reproduce.variants import Variant

DEFAULT_IMAGES = 4
SIDE = 256  # pixels of a drawn image
OVERLAP_IMAGES = 200
ATTENDING = ("slots", "transformer", "pie_net")
OURS = Variant("ours")
ABOUT = (
    "Fig. 4, A2, A3: rows are slots, columns are iterations. Strong colour marks where a slot has "
    "most of its attention; the numbers are its smallest and largest share of a cell. Next to each "
    "slot is the caption of the split that is nearest to its element, with ✓ and in green if it "
    "belongs to this image. Seed 0."
)


@dataclass(frozen=True)
class Nearest:
    """The caption nearest to one element of an image's set."""

    image: str
    slot: int
    caption: str
    matching: bool


def check(experiment: Experiment) -> None:
    model = experiment.recipe.model
    if model.image.kind != "convolution" or model.image_set.kind not in ATTENDING:
        raise OptionError(
            f"{experiment.name} has image.kind {model.image.kind} and image_set.kind "
            f"{model.image_set.kind}; attention is drawn over convolution maps, for sets of kind "
            f"{', '.join(ATTENDING)}"
        )


@torch.no_grad()
def attention_maps(
    encoded: EncodedSplit, images: Sequence[int]
) -> Float[Tensor, "n iterations slots cells"]:
    """Each slot's share of every cell by iteration, mean over heads."""
    model = encoded.model
    with evaluation_mode(model):
        inputs = encoded.split.images.batch(list(images)).to(model.device)
        iterations = model.image_encoder(inputs, with_attention=True).attention
    return torch.stack([attention.mean(dim=1) for attention in iterations], dim=1).cpu()


def nearest_captions(encoded: EncodedSplit, image: int) -> list[Nearest]:
    """The nearest caption of every element of an image."""
    dataset = encoded.split.dataset
    nearest = []
    for slot, element in enumerate(encoded.images[image]):
        caption = int((encoded.texts @ element).amax(dim=1).argmax())
        matching = int(dataset.image_index[caption]) == image
        text = dataset.captions[caption]
        nearest.append(Nearest(dataset.image_ids[image], slot + 1, text, matching))
    return nearest


def overlap(maps: Float[Tensor, "n iterations slots cells"]) -> list[float]:
    """Mean cosine between the maps of two slots per iteration; 0 is disjoint, 1 identical."""
    unit = F.normalize(maps, dim=-1)
    slots = maps.shape[2]
    if slots == 1:
        return [1.0] * maps.shape[1]
    off_diagonal = ((unit @ unit.mT).sum(dim=(-1, -2)) - slots) / (slots * (slots - 1))
    mean: list[float] = off_diagonal.mean(dim=0).tolist()
    return mean


def page(experiment: Experiment, failed: Failed) -> Page:
    encoded = encode_run(experiment, experiment.run_for(OURS, 0))
    images = _images_to_show(experiment, len(encoded.split.images))
    every = [nearest_captions(encoded, image) for image in range(len(encoded.split.images))]
    plots = [_draw(experiment, encoded, image, every[image]) for image in images]
    return _page(encoded, images, every, plots)


def _images_to_show(experiment: Experiment, count: int) -> tuple[int, ...]:
    images = experiment.images or tuple(range(min(DEFAULT_IMAGES, count)))
    wrong = [image for image in images if not 0 <= image < count]
    if wrong:
        raise OptionError(f"images is {wrong}; choose from 0 to {count - 1}")
    return images


def _page(
    encoded: EncodedSplit, images: Sequence[int], every: list[list[Nearest]], plots: list[str]
) -> Page:
    listed = [nearest for image in images for nearest in every[image]]
    overlaps = overlap(attention_maps(encoded, range(min(OVERLAP_IMAGES, len(every)))))
    different = float(np.mean([len({n.caption for n in nearest}) for nearest in every]))
    matching = float(np.mean([n.matching for nearest in every for n in nearest]))
    return Page(
        "Attention of slots",
        ABOUT,
        tables=[
            markdown_table(
                ["iteration", "mean cosine between two slots' maps"],
                [[str(t + 1), f"{value:.3f}"] for t, value in enumerate(overlaps)],
            ),
            f"Over all {len(every):,} images, the {encoded.images.shape[1]} elements of a set "
            f"have {different:.2f} different nearest captions on average; {matching:.1%} of "
            "elements are nearest to a caption of their own image.",
            markdown_table(
                ["image", "slot", "nearest caption", "matching"],
                [[n.image, str(n.slot), n.caption, "✓" if n.matching else ""] for n in listed],
                numbers=False,
            ),
        ],
        plots=plots,
        numbers={
            "nearest": [asdict(nearest) for nearest in listed],
            "overlap_by_iteration": overlaps,
            "different_nearest_captions": different,
            "matching_share": matching,
        },
    )


def _draw(
    experiment: Experiment, encoded: EncodedSplit, image: int, nearest: Sequence[Nearest]
) -> str:
    """One figure: the image, then slots by iterations, then the captions."""
    maps = attention_maps(encoded, [image])[0]
    iterations, slots, cells = maps.shape
    side = int(cells**0.5)
    dataset = encoded.split.dataset
    whole = open_image(image_paths(dataset)[image])
    visible = visible_part(encoded.model.image_backbone().preprocess, whole, SIDE)
    columns = iterations + 2
    figure, axes = new_figure(slots, columns, width=1.7 * columns + 1, height=1.75 * slots + 0.5)
    for panel in axes:
        panel.set_axis_off()
    axes[0].imshow(visible)
    axes[0].set_title("image", fontsize=9)
    grey = np.asarray(visible.convert("L"))
    for slot in range(slots):
        colour = COLOURS[slot % len(COLOURS)]
        for t in range(iterations):
            panel = axes[slot * columns + 1 + t]
            _overlay(panel, grey, maps[t, slot].view(side, side).numpy(), colour)
            if slot == 0:
                panel.set_title(f"iteration {t + 1}", fontsize=9)
        _caption(axes[slot * columns + columns - 1], nearest[slot], colour)
    figure.suptitle(f"Slot attention on image {dataset.image_ids[image]}", fontsize=11)
    return save_figure(figure, experiment.out / f"attention-{image}.png", svg=False)[0]


def _overlay(axes: Any, grey: Any, share: Any, colour: str) -> None:
    low, high = float(share.min()), float(share.max())
    axes.imshow(grey, cmap="gray", vmin=-120, vmax=300)
    tint = np.zeros((*share.shape, 4))
    tint[..., :3] = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    tint[..., 3] = 0.85 * (share - low) / max(high - low, 1e-9)
    height, width = grey.shape
    axes.imshow(tint, extent=(0, width, height, 0), interpolation="bicubic")
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    label = f"{low:.2f} to {high:.2f}"
    axes.text(0.5, -0.03, label, transform=axes.transAxes, ha="center", va="top", fontsize=7)


def _caption(axes: Any, nearest: Nearest, colour: str) -> None:
    text = textwrap.fill(nearest.caption, 24)
    mark = "✓ " if nearest.matching else ""
    axes.text(0, 0.98, f"slot {nearest.slot}", color=colour, weight="bold", va="top", fontsize=9)
    text_colour = GREEN if nearest.matching else GREY
    axes.text(0, 0.8, mark + text, color=text_colour, va="top", fontsize=8)


STUDY = Study(
    "attention",
    "Fig. 4, A2, A3: maps of every slot in every iteration, nearest captions",
    lambda experiment: [OURS],
    page,
    check,
    seeds=1,
)
