"""Images and plots inside the report's HTML: no file beside it is needed."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence

from PIL import Image

from diverset.evaluation import Report

LEVELS = ("R@1", "R@5", "R@10")
WIDTH, HEIGHT, TOP, BASE = 640, 270, 34, 210
BAR, GAP = 38, 4


def embedded_image(image: Image.Image, text: str, side: int) -> str:
    """An `img` element that contains the image, resized to `side` pixels."""
    resized = image.resize((side, side), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    resized.save(stream, "WEBP", quality=82, method=4)
    data = base64.b64encode(stream.getvalue()).decode()
    size = f'width="{side}" height="{side}" loading="lazy"'
    return f'<img alt="{html.escape(text)}" {size} src="data:image/webp;base64,{data}">'


def recall_plot(reports: Mapping[str, Report]) -> str:
    """Bars of all recalls of both models as SVG; colours come from the style sheet."""
    groups = [
        (direction, level, [_recall(report, side, level) for report in reports.values()])
        for direction, side in (
            ("text to image", "text_to_image"),
            ("image to text", "image_to_text"),
        )
        for level in LEVELS
    ]
    step = WIDTH / len(groups)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_spoken(reports)}">',
        *(_gridline(percent) for percent in (0, 25, 50, 75, 100)),
    ]
    for number, (_, level, values) in enumerate(groups):
        middle = (number + 0.5) * step
        parts += _bars(middle, values)
        parts.append(f'<text class="tick" x="{middle:.1f}" y="{BASE + 20}">{level}</text>')
    for number, direction in enumerate(("text to image", "image to text")):
        x = WIDTH * (number * 2 + 1) / 4
        parts.append(f'<text class="axis" x="{x}" y="{BASE + 46}">{direction}</text>')
    parts.append(
        f'<line class="split" x1="{WIDTH / 2}" x2="{WIDTH / 2}" y1="{TOP}" y2="{HEIGHT}"/>'
    )
    return "".join([*parts, "</svg>"])


def _recall(report: Report, side: str, level: str) -> float:
    recalls = getattr(report, side)
    return float(getattr(recalls, level.lower().replace("@", "")))


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


def _spoken(reports: Mapping[str, Report]) -> str:
    """The plot for people who cannot see it."""
    recalls = (
        f"{name}: {report.text_to_image.r1:.0f} % text to image, {report.image_to_text.r1:.0f} % "
        "image to text"
        for name, report in reports.items()
    )
    return html.escape(f"Recall at 1. {'; '.join(recalls)}")
