"""Fig. 4, A2 and A3: what every slot took of a picture in every iteration, and what it found.

The nearest caption of an element is the one with the nearest element of all captions of the split;
it is marked where it was written for the picture. Only maps have places to draw, so that region
features are refused.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from PIL.Image import Image
from torch import Tensor
from torch.nn import functional as F

from diverset.analysis.bench import Bench
from diverset.analysis.encoded import Encoded, encode_run
from diverset.analysis.plots import COLOURS, GREEN, GREY, figure, save
from diverset.analysis.rows import Row
from diverset.analysis.study import Failed, Study
from diverset.analysis.tables import Page, markdown_table, write_page
from diverset.data.images import open_picture
from diverset.data.preprocess import Preprocess
from diverset.errors import OptionError
from diverset.inputs import evaluation_mode

SHOWN = 4  # pictures, where none are asked for
SIDE = 256  # pixels, about
LOOKED_AT = 200  # pictures, for the overlap of maps
ATTENDING = ("slots", "transformer", "pie_net")
ROW = Row("ours")


@dataclass(frozen=True)
class Nearest:
    """The caption nearest to one element of a picture's set."""

    image: str
    slot: int
    caption: str
    matching: bool


def check(bench: Bench) -> None:
    model = bench.recipe.model
    if model.image.kind != "convolution" or model.image_set.kind not in ATTENDING:
        raise OptionError(
            f"{bench.stem} has image.kind {model.image.kind} and image_set.kind "
            f"{model.image_set.kind}; attention is drawn over convolution maps, for sets of kind "
            f"{', '.join(ATTENDING)}"
        )


@torch.no_grad()
def attention_maps(encoded: Encoded, images: Sequence[int]) -> Float[Tensor, "n t slots cells"]:
    """Shares of every cell by iteration and slot, mean over heads."""
    model = encoded.model
    with evaluation_mode(model):
        inputs = encoded.split.images.batch(list(images)).to(model.device)
        found = model.image_encoder(inputs, with_attention=True).attention
    return torch.stack([one.mean(dim=1) for one in found], dim=1).cpu()


def nearest_captions(encoded: Encoded, image: int) -> list[Nearest]:
    """For every element of a picture the caption nearest to it."""
    collection = encoded.split.collection
    found = []
    for slot, element in enumerate(encoded.images[image]):
        place = int((encoded.texts @ element).amax(dim=1).argmax())
        matching = int(collection.owners[place]) == image
        caption = collection.captions[place]
        found.append(Nearest(collection.image_ids[image], slot + 1, caption, matching))
    return found


def overlap(maps: Float[Tensor, "n t slots cells"]) -> list[float]:
    """Mean cosine between the maps of two slots, for each iteration; 0 is disjoint, 1 the same."""
    unit = F.normalize(maps, dim=-1)
    cosines = unit @ unit.transpose(-1, -2)
    slots = maps.shape[2]
    if slots == 1:
        return [1.0] * maps.shape[1]
    others = (cosines.sum(dim=(-1, -2)) - slots) / (slots * (slots - 1))
    mean: list[float] = others.mean(dim=0).tolist()
    return mean


def write(bench: Bench, failed: Failed) -> Path:
    encoded = encode_run(bench, bench.run_of(ROW, 0))
    count = len(encoded.split.images)
    images = bench.images or tuple(range(min(SHOWN, count)))
    wrong = [one for one in images if not 0 <= one < count]
    if wrong:
        raise OptionError(f"images is {wrong}; choose from 0 to {count - 1}")
    pictures, rows = [], []
    for image in images:
        found = nearest_captions(encoded, image)
        pictures += _draw(bench, encoded, image, found)
        rows += found
    overlaps = overlap(attention_maps(encoded, range(min(LOOKED_AT, count))))
    every = [nearest_captions(encoded, image) for image in range(count)]
    different = float(np.mean([len({one.caption for one in some}) for some in every]))
    matching = float(np.mean([one.matching for some in every for one in some]))
    return write_page(
        bench,
        Page(
            "attention",
            "Attention of slots",
            "Fig. 4, A2, A3: rows are slots, columns iterations. Strong colour is where a slot "
            "took most of a picture, the numbers are its smallest and largest share of a cell. "
            "Beside each slot the caption of the split nearest to its element; ✓ and green where "
            "it was written for this picture. Seed 0.",
            tables=[
                markdown_table(
                    ["iteration", "mean cosine between two slots' maps"],
                    [[str(t + 1), f"{value:.3f}"] for t, value in enumerate(overlaps)],
                ),
                f"Over all {count:,} pictures, the {encoded.images.shape[1]} elements of a set "
                f"have {different:.2f} different nearest captions on average; {matching:.1%} of "
                "elements are nearest to a caption of their own picture.",
                markdown_table(
                    ["picture", "slot", "nearest caption", "matching"],
                    [[o.image, str(o.slot), o.caption, "✓" if o.matching else ""] for o in rows],
                    numbers=False,
                ),
            ],
            pictures=pictures,
            numbers={
                "nearest": [asdict(one) for one in rows],
                "overlap_by_iteration": overlaps,
                "different_nearest_captions": different,
                "matching_share": matching,
            },
        ),
    )


def _draw(bench: Bench, encoded: Encoded, image: int, found: Sequence[Nearest]) -> list[str]:
    """One figure: the picture, then slots by iterations, then the captions."""
    maps = attention_maps(encoded, [image])[0]
    iterations, slots, cells = maps.shape
    side = int(cells**0.5)
    assert encoded.split.collection.pictures is not None
    file = encoded.split.collection.pictures[image]
    seen = _seen(encoded.model.picture_network().preprocess, file)
    columns = iterations + 2
    drawn, axes = figure(slots, columns, width=1.7 * columns + 1, height=1.75 * slots + 0.5)
    for one in axes:
        one.set_axis_off()
    axes[0].imshow(seen)
    axes[0].set_title("picture", fontsize=9)
    grey = np.asarray(seen.convert("L"))
    for slot in range(slots):
        for t in range(iterations):
            place = axes[slot * columns + 1 + t]
            _overlay(place, grey, maps[t, slot].view(side, side).numpy(), COLOURS[slot % 6])
            if slot == 0:
                place.set_title(f"iteration {t + 1}", fontsize=9)
        _caption(axes[slot * columns + columns - 1], found[slot], COLOURS[slot % 6])
    name = encoded.split.collection.image_ids[image]
    drawn.suptitle(f"What each slot took of picture {name}", fontsize=11)
    return save(drawn, bench.out / f"attention-{image}.png", svg=False)


def _seen(preprocess: Preprocess, file: Path) -> Image:
    """The part of a picture that the network sees, large enough to look at."""
    scale = max(1, SIDE // preprocess.size)
    larger = replace(preprocess, size=scale * preprocess.size, resize=scale * preprocess.resize)
    return larger.resized(open_picture(file))


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


def _caption(axes: Any, one: Nearest, colour: str) -> None:
    said = textwrap.fill(one.caption, 24)
    mark = "✓ " if one.matching else ""
    axes.text(0, 0.98, f"slot {one.slot}", color=colour, weight="bold", va="top", fontsize=9)
    shown = GREEN if one.matching else GREY
    axes.text(0, 0.8, mark + said, color=shown, va="top", fontsize=8)


STUDY = Study(
    "attention",
    "Fig. 4, A2, A3: maps of every slot in every iteration, nearest captions",
    lambda bench: bench.runs_of([ROW], seeds=1),
    write,
    check,
)
