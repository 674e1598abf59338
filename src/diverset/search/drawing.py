"""A picture of why something matched: what each element looked at, and how much of the match it is.

Elements are numbered from 1 as people see them; `diverset similar FILE --part N` takes the number.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from diverset.data.images import open_picture
from diverset.index.explain import explain
from diverset.library.encoding import PictureEncoder
from diverset.overlays import COLOURS, overlay, shown, slot_maps
from diverset.search.searcher import Elements, Searcher

SIDE, FOOT, GAP, LETTERS = 280, 46, 8, 17


@dataclass(frozen=True)
class Reasons:
    """Why a picture matches words.

    Attributes:
        score: the similarity of both sets.
        shares: of each element of the picture in the match; they sum to one.
        best: its largest cosine with an element of the words.
    """

    score: float
    shares: Float[np.ndarray, " slots"]
    best: Float[np.ndarray, " slots"]


@dataclass(frozen=True)
class Explained(Reasons):
    """The same with a drawing."""

    picture: Image.Image


def picture_maps(encoder: PictureEncoder, pixels: Tensor) -> Float[Tensor, "slots rows columns"]:
    """What each element of a picture looked at."""
    maps: Tensor = slot_maps(encoder.model, encoder.inputs([pixels]))[0]
    return maps


def reasons(words: Elements, picture: Elements, alpha: float) -> Reasons:
    """Why the set of a picture matches that of words."""
    found = explain(words, picture[None], alpha)
    shares, best = found.contributions[0].sum(axis=0), found.cosines[0].max(axis=0)
    return Reasons(float(found.scores[0]), shares, best)


def draw_explanation(searcher: Searcher, words: str, path: str | Path) -> Explained:
    """The picture, and beside it one overlay for each element."""
    query, stored = searcher.of_words([words])[0], searcher.of_picture(path)
    why = reasons(query, stored, searcher.library.about["alpha"])
    encoder = searcher.library.encoder
    picture = shown(encoder.preprocess, open_picture(path), SIDE)
    tiles = [(picture, words, "black")]
    for at, share in enumerate(picture_maps(encoder, encoder.open(path))):
        colour = COLOURS[at % len(COLOURS)]
        text = f"element {at + 1}: {why.shares[at]:.0%} of the match"
        tiles.append((overlay(picture, share, colour), text, f"rgb{colour}"))
    return Explained(why.score, why.shares, why.best, _row(tiles))


def _row(tiles: list[tuple[Image.Image, str, str]]) -> Image.Image:
    width, height = tiles[0][0].size
    sheet = Image.new("RGB", (len(tiles) * (width + GAP) + GAP, height + FOOT), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=LETTERS)
    for at, (tile, text, colour) in enumerate(tiles):
        left = GAP + at * (width + GAP)
        sheet.paste(tile, (left, GAP))
        pen.rectangle((left, height + GAP, left + width - 1, height + GAP + 4), fill=colour)
        while len(text) > 1 and pen.textlength(text, font) > width:
            text = text[:-2] + "…"
        pen.text((left, height + GAP + 9), text, fill="black", font=font)
    return sheet
