"""Draw the figures of docs/method.md and docs/results.md into docs/images.

    python scripts/draw_figures.py

Numbers come from the tables of docs/systems.md and docs/photos.md; nothing is measured here.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from PIL import Image

from diverset.model.overlays import COLOURS
from diverset.reproduce.scenes import draw_scene, sample_scene
from diverset.similarity import chamfer, mil, smooth_chamfer, smooth_chamfer_gradient

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
PALETTE = [tuple(channel / 255 for channel in colour) for colour in COLOURS]
CROSS_ATTENTION = ("SCAN", "CAAN", "IMRAM", "SGRAF", "NAAF")


def main(folder: Path = IMAGES) -> None:
    plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False})
    save(method_figure(), folder / "method")
    save(alpha_figure(), folder / "alpha")
    save(cost_figure(systems()), folder / "cost-recall")
    save(reliability_figure(reliability()), folder / "reliability")


def save(figure: Figure, path: Path) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=130, bbox_inches="tight")
    plt.close(figure)
    Image.open(buffer).convert("RGB").save(path.with_suffix(".webp"), quality=85)


def method_figure() -> Figure:
    """From an image and a text to a score."""
    figure, axis = plt.subplots(figsize=(9.2, 3.6))
    axis.set(xlim=(0, 92), ylim=(0, 36))
    axis.axis("off")
    axis.imshow(draw_scene(sample_scene(3), 320), extent=(1, 13, 21, 33), aspect="auto")
    box(axis, 1, 5, 12, 8, '"a flower is next\nto a rosy robot"')
    for y in (27, 9):
        arrow(axis, (13.5, y), (17.5, y))
        arrow(axis, (31.5, y), (35.5, y))
        arrow(axis, (51.5, y), (55.5, y))
    for y, inputs in ((22, "cells of a\nfeature map"), (4, "words")):
        box(axis, 18, y, 13, 10, f"backbone:\n{inputs}\n+ global feature")
        box(axis, 36, y, 15, 10, "K slots compete\nfor the inputs,\nT rounds (Eq. 1-4)")
        for element, colour in enumerate(PALETTE[:4]):
            axis.plot([57, 63], [y + 8.8 - 2.5 * element] * 2, color=colour, linewidth=6)
    axis.text(60, 33.6, "image set (K, D)", ha="center", fontsize=9)
    axis.text(60, 0.6, "text set (K, D)", ha="center", fontsize=9)
    arrow(axis, (64, 27), (69, 20))
    arrow(axis, (64, 9), (69, 16))
    box(
        axis,
        69.5,
        12.5,
        21,
        11,
        "smooth-Chamfer\nof the K x K cosines\n(Eq. 6-8): score and\nshare of each pair",
    )
    return figure


def box(axis: plt.Axes, x: float, y: float, width: float, height: float, text: str) -> None:
    style = FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0.3", facecolor="#eef1f8", edgecolor="#5c6bc0"
    )
    axis.add_patch(style)
    axis.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=8.5)


def arrow(axis: plt.Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axis.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=12, color="#444"))


def alpha_figure() -> Figure:
    """Smooth-Chamfer between two sets as alpha grows, and who gets the gradient."""
    generator = torch.Generator().manual_seed(4)
    shared = torch.randn(1, 1, 16, generator=generator)
    sets = [
        torch.nn.functional.normalize(shared + torch.randn(1, 4, 16, generator=generator), dim=-1)
        for _ in range(2)
    ]
    cosines = torch.einsum("bkd,bld->bkl", *sets)[..., None].double()
    alphas = np.geomspace(0.5, 256, 80)
    scores = [smooth_chamfer(*sets, alpha=float(alpha)).item() for alpha in alphas]
    gradients = [smooth_chamfer_gradient(cosines, float(a)).flatten().numpy() for a in alphas]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
    left.semilogx(alphas, scores, color=PALETTE[0], label="smooth-Chamfer")
    left.axhline(chamfer(*sets).item(), color=PALETTE[1], linestyle="--", label="Chamfer")
    left.axhline(mil(*sets).item(), color=PALETTE[2], linestyle=":", label="MIL (best pair)")
    left.set(xlabel="alpha", ylabel="score of one pair of sets")
    left.set_ylim(top=1.6)
    left.legend(frameon=False)
    right.semilogx(alphas, np.array(gradients), linewidth=1)
    right.axvline(16, color="grey", linewidth=0.8)
    right.text(17, right.get_ylim()[1] * 0.93, "alpha = 16", fontsize=8)
    right.set(xlabel="alpha", ylabel="gradient of each of the 16 cosines")
    figure.tight_layout()
    return figure


def systems() -> list[tuple[str, float, float]]:
    """Name, RSUM and kFLOPs of a pair of the rows of docs/systems.md."""
    text = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rsum = re.fullmatch(r"([\d.]+)(?: ± [\d.]+)?", cells[5]) if len(cells) == 9 else None
        if rsum:
            found.append((cells[0], float(rsum[1]), float(cells[7].replace(",", ""))))
    if not found:
        raise SystemExit("docs/systems.md has no rows of systems with numbers")
    return found


def cost_figure(rows: list[tuple[str, float, float]]) -> Figure:
    """RSUM of the systems against the cost of scoring a pair."""
    figure, axis = plt.subplots(figsize=(7, 3.8))
    shift = {"VSE-infinity": (5, -3), "VSRN": (5, -3), "SCAN": (-36, -4), "PVSE": (5, -12)}
    for name, rsum, cost in rows:
        colour = PALETTE[1] if name in CROSS_ATTENTION else PALETTE[0]
        colour = PALETTE[2] if name.startswith("ours") else colour
        axis.scatter(cost, rsum, color=colour, s=40, zorder=3)
        axis.annotate(
            name, (cost, rsum), shift.get(name, (5, 4)), textcoords="offset points", size=9
        )
    axis.set_xscale("log")
    axis.set_xlim(0.2, 3e4)
    axis.set(xlabel="kFLOPs to score one pair (log scale)", ylabel="RSUM, Flickr8k val")
    axis.grid(alpha=0.3)
    return figure


def reliability() -> dict[str, list[tuple[float, float]]]:
    """Mean probability and share of relevant hits per decile, by row of docs/photos.md."""
    text = (ROOT / "docs" / "photos.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]*(?:any image|ten best)[^|]*) \| (.+) \|$", text, re.MULTILINE)
    if not rows:
        raise SystemExit("docs/photos.md has no rows of deciles under Reliability")
    return {
        name: [(float(a), float(b)) for a, b in re.findall(r"(\d+) (\d+)(?: ±\d+)?(?:,|$)", row)]
        for name, row in rows
    }


def reliability_figure(rows: dict[str, list[tuple[float, float]]]) -> Figure:
    figure, axis = plt.subplots(figsize=(4.6, 4.2))
    axis.plot([0, 100], [0, 100], color="grey", linewidth=0.8)
    for (name, points), colour in zip(rows.items(), PALETTE, strict=False):
        axis.plot(*zip(*points, strict=True), marker="o", markersize=4, color=colour, label=name)
    axis.set(xlabel="probability shown (%)", ylabel="hits that are relevant (%)")
    axis.legend(fontsize=7)
    axis.grid(alpha=0.3)
    return figure


if __name__ == "__main__":
    main()
