"""The demo's report: one HTML file, light and dark, that needs no network."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from PIL import Image

from diverset.data.images import open_image
from diverset.model.overlays import COLOURS, overlay
from diverset.recipe.splits import image_paths
from diverset.reproduce.demo.figures import embedded_image, recall_plot
from diverset.reproduce.demo.matches import SlotMatch, match_captions
from diverset.reproduce.demo.recipe import CONTROL, SETS
from diverset.reproduce.demo.result import DemoResult
from diverset.reproduce.demo.showcase import HITS, RULE, Showcase, found_first

SCENES = 4
HIT_SIDE, SCENE_SIDE = 220, 320
FAINT = 0.1  # weight below which a word is not shaded


def write_report(file: Path, result: DemoResult, facts: dict[str, str]) -> Path:
    """Write the page and return its path; `facts` says how it was made."""
    style = files(__package__).joinpath("report.css").read_text(encoding="utf-8")
    page = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>diverset demo: sets of embeddings against one vector</title>
<style>{style}</style>
<main>
{_headline(result)}
{_task(result)}
{_recalls(result)}
{_queries(result)}
{_slots(result)}
{_facts(facts)}
</main>
</html>
"""
    file.write_text(page, encoding="utf-8")
    return file


def _headline(result: DemoResult) -> str:
    sets, control = (result.reports[name].text_to_image.r1 for name in (SETS, CONTROL))
    found, total = found_first(result.showcases[SETS]), len(result.showcases[SETS])
    other = found_first(result.showcases[CONTROL])
    scenes = result.reports[SETS].n_images
    return f"""<p class="brand">diverset demo</p>
<h1>{_title(result)}</h1>
<p>Every scene shows four separate situations, and a query describes only one of them. Both models
were trained on the same scenes for the same number of steps; they differ only in the number of
embeddings per item. All results are on {scenes} scenes that neither has seen.</p>
<div class="headline">
<div class="card number sets"><b>{sets:.0f} %</b><span>of queries find the right scene first with
<strong>sets of four</strong> (of {scenes} scenes)</span></div>
<div class="card number"><b>{control:.0f} %</b><span>with <strong>one vector</strong></span></div>
<div class="card number sets"><b>{found} of {total}</b><span>showcased queries find the right scene
first with sets, {other} of {total} with one vector</span></div>
</div>
<p class="soft">{_bootstrap(result)}</p>"""


def _title(result: DemoResult) -> str:
    """A claim only if the interval of the difference supports it."""
    if result.comparison.low > 0:
        return "Four embeddings find what one vector loses"
    return "Sets of four embeddings against one vector"


def _bootstrap(result: DemoResult) -> str:
    compared = result.comparison
    return (
        f"Sum of all six recalls (RSUM, at most 600): {compared.second:.1f} with sets, "
        f"{compared.first:.1f} with one vector. Difference {compared.difference:+.1f}, "
        f"{compared.confidence:.0%} interval {compared.low:+.1f} to {compared.high:+.1f}, "
        f"p = {compared.p_value:.4f} (paired bootstrap over scenes, {compared.resamples:,} "
        "resamples)."
    )


def _task(result: DemoResult) -> str:
    split = result.encoded.split
    captions = [split.dataset.captions[row] for row in split.by_image[0]]
    boxes, lines = [], []
    for number, (caption, box) in enumerate(zip(captions, result.boxes[0], strict=True)):
        left, top, right, bottom = (100 * edge for edge in box)
        boxes.append(
            f'<i style="{_mark(number)};left:{left:.1f}%;top:{top:.1f}%;'
            f'width:{right - left:.1f}%;height:{bottom - top:.1f}%"></i>'
        )
        lines.append(f'<li style="{_mark(number)}">{html.escape(caption)}</li>')
    image = embedded_image(_load(result, 0), "a scene with four situations", SCENE_SIDE)
    return f"""<h2>The task</h2>
<p>A test scene and its captions. Any of them should find this scene, but they have little in
common: one vector has to be close to all four at once, a set can have an element for each.</p>
<div class="task card"><div class="boxed">{image}{"".join(boxes)}</div>
<ul>{"".join(lines)}</ul></div>"""


def _recalls(result: DemoResult) -> str:
    directions = ("text to image", "image to text")
    plots = "".join(recall_plot(result.reports, direction) for direction in directions)
    return f"""<h2>Recall</h2>
<p>Share of queries whose right answer is among the first 1, 5 and 10, in percent.</p>
<div class="card plot">
<p class="legend"><span class="a">{SETS}</span><span class="b">{CONTROL}</span></p>
<div class="plots">{plots}</div></div>"""


def _queries(result: DemoResult) -> str:
    pairs = zip(result.showcases[SETS], result.showcases[CONTROL], strict=True)
    cards = "".join(_query(result, ours, control) for ours, control in pairs)
    return f"""<h2>Six queries</h2>
<p>{RULE[0].upper()}{RULE[1:]}: a rule that was fixed before training. The first {HITS} hits of each
model; the scene that the query describes is marked. No other test scene shows the same
situation.</p>
<div class="queries">{cards}</div>"""


def _query(result: DemoResult, ours: Showcase, control: Showcase) -> str:
    text = html.escape(result.encoded.split.dataset.captions[ours.caption])
    columns = "".join(_hits(result, *side) for side in ((SETS, ours), (CONTROL, control)))
    models = f'<div class="models">{columns}</div>'
    return f'<article class="card query"><h3>“{text}”</h3>{models}</article>'


def _hits(result: DemoResult, name: str, query: Showcase) -> str:
    first = query.rank == 1
    verdict = "found first" if first else f"right scene at rank {query.rank}"
    figures = "".join(
        f'<figure class="{"right" if image == query.image else ""}">'
        f"{embedded_image(_load(result, image), f'hit {rank} of {name}', HIT_SIDE)}</figure>"
        for rank, image in enumerate(query.hits, start=1)
    )
    return (
        f'<div>{name} <span class="verdict {"yes" if first else ""}">· {verdict}</span>'
        f'<div class="hits">{figures}</div></div>'
    )


def _slots(result: DemoResult) -> str:
    cards = "".join(_scene(result, image) for image in range(min(SCENES, len(result.boxes))))
    return f"""<h2>Why it matched: slots and words</h2>
<p>What each of the four slots attends to in the first test scenes, the captions that it matched,
and its share of the similarity. The stronger a word is shaded, the more the match suffers without
it. Over all test captions, the slot that matched attends most to a point inside the described
situation in <strong>{result.pointing():.0%}</strong> of the cases; a random point would do so in
{result.chance():.0%}.</p>
<div class="scenes">{cards}</div>"""


def _scene(result: DemoResult, image: int) -> str:
    encoded = result.encoded
    rows = encoded.split.by_image[image]
    captions = [encoded.split.dataset.captions[row] for row in rows]
    matches = match_captions(encoded.model, encoded.images[image], captions, encoded.texts[rows])
    scene = _load(result, image)
    figures = [f"<figure>{embedded_image(scene, 'test scene', HIT_SIDE)}</figure>"]
    for slot, attention in enumerate(result.maps[image]):
        drawn = overlay(scene, attention, COLOURS[slot % len(COLOURS)])
        matched = [match for match in matches if match.slot == slot]
        figures.append(
            f'<figure class="slot" style="{_mark(slot)}">'
            f"{embedded_image(drawn, f'attention of slot {slot + 1}', HIT_SIDE)}"
            f"<figcaption><b>slot {slot + 1}</b> {_words(matched)}</figcaption></figure>"
        )
    return f'<article class="card slots">{"".join(figures)}</article>'


def _words(matches: Sequence[SlotMatch]) -> str:
    if not matches:
        return "matched no caption of this scene"
    return "<br>".join(
        " ".join(
            _word(html.escape(word), weight)
            for word, weight in zip(match.caption.split(), match.weights, strict=True)
        )
        + f" {match.share:.0%}"
        for match in matches
    )


def _word(word: str, weight: float) -> str:
    return word if weight < FAINT else f'<mark style="--w:{weight:.2f}">{word}</mark>'


def _facts(facts: dict[str, str]) -> str:
    rows = "".join(
        f"<dt>{html.escape(name)}</dt><dd>{html.escape(fact)}</dd>" for name, fact in facts.items()
    )
    return f'<h2>How it was made</h2><dl class="facts">{rows}</dl>'


def _mark(number: int) -> str:
    red, green, blue = COLOURS[number % len(COLOURS)]
    return f"--mark:rgb({red} {green} {blue})"


def _load(result: DemoResult, image: int) -> Image.Image:
    return open_image(image_paths(result.encoded.split.dataset)[image])
