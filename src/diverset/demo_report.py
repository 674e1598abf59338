"""One HTML file with pictures in it: what was asked, what was found, what each slot looked at."""

from __future__ import annotations

import base64
import html
import io
from pathlib import Path

from PIL import Image
from torch import Tensor

from diverset.data.images import open_picture
from diverset.model import Model
from diverset.overlays import COLOURS, overlay, slot_maps
from diverset.training.encoding import encode_split
from diverset.training.opening import Opened

QUERIES, HITS, PICTURES = 6, 5, 4
SIDE = 160
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;
color:#222;background:#fff}h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem}
pre{background:#f4f4f4;padding:1rem;overflow-x:auto}figure{display:inline-block;margin:.3rem;
width:160px;vertical-align:top;font-size:.8rem}img{width:160px;height:160px;border-radius:6px;
border:3px solid transparent}.right img{border-color:#009e73}.row{margin:.5rem 0 1.5rem}
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}pre{background:#262626}}
"""


def write_report(file: Path, model: Model, split: Opened, table: str) -> Path:
    """Write the page and return its path."""
    images, texts = encode_split(model, split)
    scores = model.similarity(images, texts)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>diverset demo</title>",
        f"<meta name=viewport content='width=device-width'><style>{STYLE}</style>",
        "<h1>diverset: sets of embeddings on drawn scenes</h1>",
        "<p>Every picture holds four separate situations; every caption tells of one of them. ",
        "Results are on pictures that neither model has seen.</p>",
        f"<pre>{html.escape(table)}</pre>",
        "<h2>Pictures found by words</h2><p>The picture that the caption was written for has a ",
        "green frame; others can be right too, where they hold the same situation.</p>",
        *(_query(caption, scores, split) for caption in _chosen(split)),
        "<h2>What each slot looked at</h2><p>Attention of the last iteration over the picture, ",
        "and the caption nearest to that element.</p>",
        *(_slots(model, split, image, images, texts) for image in range(PICTURES)),
        "</html>",
    ]
    file.write_text("\n".join(parts), encoding="utf-8")
    return file


def _chosen(split: Opened) -> list[int]:
    return [int(captions[0]) for captions in split.by_image[:QUERIES]]


def _query(caption: int, scores: Tensor, split: Opened) -> str:
    order = scores[:, caption].argsort(descending=True)[:HITS].tolist()
    own = int(split.collection.owners[caption])
    figures = [
        _figure(
            _picture(split, image),
            f"{scores[image, caption]:.2f}",
            "right" if image == own else "",
        )
        for image in order
    ]
    said = html.escape(split.collection.captions[caption])
    return f"<div class=row><b>“{said}”</b><br>{''.join(figures)}</div>"


def _slots(model: Model, split: Opened, image: int, images: Tensor, texts: Tensor) -> str:
    shares = slot_maps(model, split.images.batch([image]))[0]
    picture = _picture(split, image)
    figures = [_figure(picture, "the picture")]
    for slot, share in enumerate(shares):
        nearest = (images[image, slot] @ texts.transpose(1, 2)).amax(dim=1).argmax()
        said = split.collection.captions[int(nearest)]
        drawn = overlay(picture, share, COLOURS[slot % len(COLOURS)])
        own = int(split.collection.owners[int(nearest)]) == image
        figures.append(_figure(drawn, f"slot {slot + 1}: {said}", "right" if own else ""))
    return f"<div class=row>{''.join(figures)}</div>"


def _picture(split: Opened, image: int) -> Image.Image:
    assert split.collection.pictures is not None
    picture = open_picture(split.collection.pictures[image])
    return picture.resize((SIDE, SIDE), Image.Resampling.LANCZOS)


def _figure(picture: Image.Image, text: str, kind: str = "") -> str:
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=88)
    data = base64.b64encode(stream.getvalue()).decode()
    said = html.escape(text)
    return (
        f"<figure class='{kind}'><img alt='{said}' src='data:image/jpeg;base64,{data}'>"
        f"<figcaption>{said}</figcaption></figure>"
    )
