"""What an evaluation found, for programs (JSON) and for people (a Markdown table).

Recalls are percentages and are called so wherever they appear. This module does not compute
anything but text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from diverset.evaluation.health import Health, SetHealth
from diverset.evaluation.recall import Ranks, Recalls, rsum

FORMAT = 1


@dataclass(frozen=True)
class Report:
    """The outcome of one evaluation.

    Attributes:
        protocol: its name, e.g. "full" or "COCO 1K (mean of 5 folds)".
        n_images: how many images were evaluated.
        n_captions: how many captions were evaluated.
        image_to_text: recalls of captions for image queries, in percent.
        text_to_image: recalls of images for caption queries, in percent.
        health: the state of the sets; None for ensembles, or where it was not asked for.
        extras: further numbers by name, e.g. those of ECCV Caption, and notes.
        ranks: the rank of every query, for `paired_bootstrap`; not part of the JSON.
    """

    protocol: str
    n_images: int
    n_captions: int
    image_to_text: Recalls
    text_to_image: Recalls
    health: Health | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    ranks: Ranks | None = field(default=None, repr=False, compare=False)

    @property
    def rsum(self) -> float:
        """The sum of the six recalls, in percent: 600 is perfect."""
        return rsum(self.image_to_text, self.text_to_image)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the ranks, ready for JSON."""
        return {
            "format": FORMAT,
            "protocol": self.protocol,
            "n_images": self.n_images,
            "n_captions": self.n_captions,
            "recalls_are": "percent",
            "image_to_text": asdict(self.image_to_text),
            "text_to_image": asdict(self.text_to_image),
            "rsum": self.rsum,
            "health": None if self.health is None else asdict(self.health),
            "extras": dict(self.extras),
        }

    def to_json(self) -> str:
        """`to_dict` as text; a number that JSON does not know is an error."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def table(self) -> str:
        """A Markdown table that can be read as it is.

        >>> print(Report("full", 2, 4, Recalls(50, 100, 100, 1, 1.5),
        ...              Recalls(75, 100, 100, 1, 1.25)).table())
        Protocol: full; 2 images, 4 captions; recalls in percent; RSUM 525.0
        <BLANKLINE>
        | direction     |   R@1 |   R@5 |  R@10 | median rank | mean rank |
        | ------------- | ----: | ----: | ----: | ----------: | --------: |
        | image to text |  50.0 | 100.0 | 100.0 |         1.0 |       1.5 |
        | text to image |  75.0 | 100.0 | 100.0 |         1.0 |       1.2 |
        """
        lines = [
            f"Protocol: {self.protocol}; {self.n_images:,} images, {self.n_captions:,} captions; "
            f"recalls in percent; RSUM {self.rsum:.1f}",
            "",
            "| direction     |   R@1 |   R@5 |  R@10 | median rank | mean rank |",
            "| ------------- | ----: | ----: | ----: | ----------: | --------: |",
            _row("image to text", self.image_to_text),
            _row("text to image", self.text_to_image),
        ]
        if self.health is not None:
            lines += [
                "",
                "| sets   | elements | mean log variance | log mean variance | mean cosine "
                "| slot use in percent |",
                "| ------ | -------: | ----------------: | ----------------: | ----------: "
                "| ------------------- |",
                _health_row("images", self.health.images),
                _health_row("texts", self.health.texts),
            ]
        if self.extras:
            lines += ["", *(line for item in self.extras.items() for line in _extra(*item))]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def _row(name: str, found: Recalls) -> str:
    return (
        f"| {name} | {found.r1:5.1f} | {found.r5:5.1f} | {found.r10:5.1f} "
        f"| {found.median_rank:11.1f} | {found.mean_rank:9.1f} |"
    )


def _health_row(name: str, found: SetHealth) -> str:
    before, after, cosine = (
        "-" if number is None else f"{number:.3f}"
        for number in (found.mean_log_variance, found.log_mean_variance, found.mean_cosine)
    )
    use = " ".join(f"{100 * share:.1f}" for share in found.slot_use)
    return (
        f"| {name:6} | {found.elements:8} | {before:>17} | {after:>17} | {cosine:>11} | {use:19} |"
    )


def _extra(name: str, value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"- {name}: {_number(value)}"]
    lines = [f"- {name}"]
    for key, one in value.items():
        if isinstance(one, Mapping):
            one = ", ".join(f"{inner} {_number(number)}" for inner, number in one.items())
        lines.append(f"  - {key}: {_number(one)}")
    return lines


def _number(value: Any) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
