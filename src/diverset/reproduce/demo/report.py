"""The demo's report: one HTML file with queries, hits and the attention of each slot."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path

from PIL import Image
from torch import Tensor

from diverset.data.images import open_image
from diverset.model import Model
from diverset.model.overlays import COLOURS, overlay
from diverset.model.slot_maps import slot_maps
from diverset.recipe.encode import encode_split
from diverset.recipe.splits import SplitData

QUERIES, HITS, IMAGES = 6, 5, 4
SIDE = 160
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;
color:#222;background:#fff}h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem}
pre{background:#f4f4f4;padding:1rem;overflow-x:auto}figure{display:inline-block;margin:.3rem;
width:160px;vertical-align:top;font-size:.8rem}img{width:160px;height:160px;border-radius:6px;
border:3px solid transparent}.right img{border-color:#009e73}.row{margin:.5rem 0 1.5rem}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}pre{background:#262626}}
"""


def write_report(file: Path, model: Model, split: SplitData, table: str) -> Path:
    """Write the page and return its path."""
    images, texts = encode_split(model, split)
    scores = model.similarity(images, texts)
    queries = [int(captions[0]) for captions in split.by_image[:QUERIES]]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>diverset demo</title>",
        f"<meta name=viewport content='width=device-width'><style>{STYLE}</style>",
        "<h1>diverset: sets of embeddings on generated scenes</h1>",
        "<p>Every image shows four separate situations; every caption describes one of them. ",
        "All results are on images that neither model has seen.</p>",
        f"<pre>{html.escape(table)}</pre>",
        "<h2>Text-to-image search</h2><p>The image that the caption was written for has a green ",
        "frame. Other images can match as well if they show the same situation.</p>",
        *(_query(query, scores, split) for query in queries),
        "<h2>Slot attention</h2><p>Attention of each slot in the last iteration, and the caption ",
        "nearest to its element. A green frame marks a caption of the image itself.</p>",
        *(_slots(model, split, image, images, texts) for image in range(IMAGES)),
        "</html>",
    ]
    file.write_text("\n".join(parts), encoding="utf-8")
    return file


def _query(caption: int, scores: Tensor, split: SplitData) -> str:
    order = scores[:, caption].argsort(descending=True)[:HITS].tolist()
    own = int(split.dataset.image_index[caption])
    figures = [
        _figure(_load(split, image), f"{scores[image, caption]:.2f}", image == own)
        for image in order
    ]
    text = html.escape(split.dataset.captions[caption])
    return f"<div class=row><b>“{text}”</b><br>{''.join(figures)}</div>"


def _slots(model: Model, split: SplitData, index: int, images: Tensor, texts: Tensor) -> str:
    maps = slot_maps(model.image_encoder, split.images.batch([index]))[0]
    image = _load(split, index)
    figures = [_figure(image, "image")]
    for slot, attention in enumerate(maps):
        nearest = int((images[index, slot] @ texts.transpose(1, 2)).amax(dim=1).argmax())
        caption = split.dataset.captions[nearest]
        drawn = overlay(image, attention, COLOURS[slot % len(COLOURS)])
        own = int(split.dataset.image_index[nearest]) == index
        figures.append(_figure(drawn, f"slot {slot + 1}: {caption}", own))
    return f"<div class=row>{''.join(figures)}</div>"


def _load(split: SplitData, index: int) -> Image.Image:
    assert split.dataset.image_paths is not None
    image = open_image(split.dataset.image_paths[index])
    return image.resize((SIDE, SIDE), Image.Resampling.LANCZOS)


def _figure(image: Image.Image, text: str, matching: bool = False) -> str:
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=88)
    data = base64.b64encode(stream.getvalue()).decode()
    text = html.escape(text)
    return (
        f"<figure class='{'right' if matching else ''}'>"
        f"<img alt='{text}' src='data:image/jpeg;base64,{data}'>"
        f"<figcaption>{text}</figcaption></figure>"
    )
