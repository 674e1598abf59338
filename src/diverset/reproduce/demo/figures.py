"""Images and plots embedded in the report's HTML, so that it is a single file."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence

from PIL import Image

from diverset.evaluation import Report

LEVELS = ("R@1", "R@5", "R@10")
WIDTH, HEIGHT, TOP, BASE = 320, 262, 24, 206
BAR, GAP = 38, 4


def embedded_image(image: Image.Image, text: str, side: int) -> str:
    """An `img` element that contains the image, resized to `side` pixels."""
    resized = image.resize((side, side), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    resized.save(stream, "WEBP", quality=82, method=4)
    data = base64.b64encode(stream.getvalue()).decode()
    size = f'width="{side}" height="{side}" loading="lazy"'
    return f'<img alt="{html.escape(text)}" {size} src="data:image/webp;base64,{data}">'


def recall_plot(reports: Mapping[str, Report], direction: str) -> str:
    """Bars of the recalls in one direction as SVG; colours come from the style sheet.

    `direction` is "text to image" or "image to text".
    """
    recalls = [_recalls(report, direction) for report in reports.values()]
    spoken = "; ".join(
        f"{name} {', '.join(f'{value:.0f}' for value in values)}"
        for name, values in zip(reports, recalls, strict=True)
    )
    label = html.escape(f"Recall at 1, 5 and 10, {direction}, in percent: {spoken}")
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">',
        *(_gridline(percent) for percent in (0, 25, 50, 75, 100)),
    ]
    for number, (level, values) in enumerate(zip(LEVELS, zip(*recalls, strict=True), strict=True)):
        middle = (number + 0.5) * WIDTH / len(LEVELS)
        parts += _bars(middle, values)
        parts.append(f'<text class="tick" x="{middle:.1f}" y="{BASE + 20}">{level}</text>')
    parts.append(f'<text class="axis" x="{WIDTH / 2}" y="{BASE + 44}">{direction}</text>')
    return "".join([*parts, "</svg>"])


def _recalls(report: Report, direction: str) -> tuple[float, float, float]:
    recalls = getattr(report, direction.replace(" ", "_"))
    return recalls.r1, recalls.r5, recalls.r10


def _bars(middle: float, values: Sequence[float]) -> list[str]:
    parts = []
    left = middle - (len(values) * BAR + (len(values) - 1) * GAP) / 2
    for number, value in enumerate(values):
        x, y = left + number * (BAR + GAP), _y(value)
        parts.append(
            f'<rect class="series{number}" x="{x:.1f}" y="{y:.1f}" width="{BAR}" '
            f'height="{BASE - y:.1f}" rx="3"/>'
            f'<text class="value" x="{x + BAR / 2:.1f}" y="{y - 6:.1f}">{value:.0f}</text>'
        )
    return parts


def _gridline(percent: int) -> str:
    y = _y(percent)
    return f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'


def _y(percent: float) -> float:
    return BASE - (BASE - TOP) * percent / 100
