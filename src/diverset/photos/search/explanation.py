"""Why an image matches a text: what each element attended to, and its share of the match."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw, ImageFont

from diverset.data.images import open_image
from diverset.index.explain import explain
from diverset.model.overlays import COLOURS, attended_area, overlay, visible_part
from diverset.photos.element_numbers import element_number
from diverset.photos.search.searcher import Searcher
from diverset.photos.search.text_sets import Elements

WHOLE_IMAGE = 2 / 3  # of the image, from which an element attends to all of it
SIDE, FOOTER, GAP, FONT_SIZE = 280, 46, 8, 17


@dataclass(frozen=True)
class MatchExplanation:
    """Why an image matches a text."""

    score: float  # the similarity of both sets
    shares: Float[np.ndarray, " slots"]  # of the elements of the image in the match; sum to one
    cosines: Float[np.ndarray, " slots"]  # the largest of each element with one of the text
    areas: Float[np.ndarray, " slots"] | None = None  # the shares of the image attended to

    def describe(self, element: int) -> str:
        """The share of an element in the match, and whether it attends to the whole image."""
        whole = self.areas is not None and self.areas[element] >= WHOLE_IMAGE
        share = f"{self.shares[element]:.0%} of the match"
        return f"{share} (whole image)" if whole else share


def explain_match(text: Elements, image: Elements, alpha: float) -> MatchExplanation:
    """Explain the match of two sets."""
    explained = explain(text, image[None], alpha)
    shares, cosines = explained.contributions[0].sum(axis=0), explained.cosines[0].max(axis=0)
    return MatchExplanation(float(explained.scores[0]), shares, cosines)


def draw_explanation(
    searcher: Searcher, text: str, path: str | Path
) -> tuple[MatchExplanation, Image.Image]:
    """An explanation, and a drawing: the image, and beside it one overlay per element."""
    image_set = searcher.encode_image(path)
    explanation = explain_match(searcher.encode_text(text), image_set, searcher.alpha)
    encoder = searcher.library.encoder
    image = visible_part(encoder.preprocess, open_image(path, 2 * SIDE), SIDE)
    tiles = [(image, text, "black")]
    maps = encoder.element_maps(encoder.open(path))
    explanation = replace(explanation, areas=np.array([attended_area(each) for each in maps]))
    for element, attention in enumerate(maps):
        colour = COLOURS[element % len(COLOURS)]
        label = f"element {element_number(element)}: {explanation.describe(element)}"
        tiles.append((overlay(image, attention, colour), label, f"rgb{colour}"))
    return explanation, _draw_row(tiles)


def _draw_row(tiles: list[tuple[Image.Image, str, str]]) -> Image.Image:
    width, height = tiles[0][0].size
    row = Image.new("RGB", (len(tiles) * (width + GAP) + GAP, height + FOOTER), "white")
    pen, font = ImageDraw.Draw(row), ImageFont.load_default(size=FONT_SIZE)
    for number, (tile, label, colour) in enumerate(tiles):
        left = GAP + number * (width + GAP)
        row.paste(tile, (left, GAP))
        pen.rectangle((left, height + GAP, left + width - 1, height + GAP + 4), fill=colour)
        while len(label) > 1 and pen.textlength(label, font) > width:
            label = label[:-2] + "…"
        pen.text((left, height + GAP + 9), label, fill="black", font=font)
    return row
