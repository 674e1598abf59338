"""The result of an evaluation as JSON and as a Markdown table; recalls are in percent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from diverset.evaluation.health import Health, SetHealth
from diverset.evaluation.recall import Ranks, Recalls

FORMAT = 1


@dataclass(frozen=True)
class Report:
    """The result of one evaluation.

    Attributes:
        protocol: its name, e.g. "full" or "COCO 1K (mean of 5 folds)".
        n_images: number of images.
        n_captions: number of captions.
        image_to_text: recalls of captions for image queries, in percent.
        text_to_image: recalls of images for caption queries, in percent.
        health: spread of the sets; None for ensembles and models without sets.
        extras: additional numbers and notes by name, e.g. of ECCV Caption.
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
        return self.image_to_text.total + self.text_to_image.total

    def to_dict(self) -> dict[str, Any]:
        """Everything but the ranks, ready for JSON."""
        fields = asdict(replace(self, ranks=None))
        del fields["ranks"]
        return {"format": FORMAT, "recalls_are": "percent", "rsum": self.rsum, **fields}

    def to_json(self) -> str:
        """`to_dict` as text; NaN and infinity raise ValueError."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def table(self) -> str:
        """A Markdown table.

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


def _row(name: str, recalls: Recalls) -> str:
    return (
        f"| {name} | {recalls.r1:5.1f} | {recalls.r5:5.1f} | {recalls.r10:5.1f} "
        f"| {recalls.median_rank:11.1f} | {recalls.mean_rank:9.1f} |"
    )


def _health_row(name: str, health: SetHealth) -> str:
    mean_log, log_mean, cosine = (
        "-" if number is None else f"{number:.3f}"
        for number in (health.mean_log_variance, health.log_mean_variance, health.mean_cosine)
    )
    use = " ".join(f"{100 * fraction:.1f}" for fraction in health.slot_use)
    return (
        f"| {name:6} | {health.elements:8} | {mean_log:>17} | {log_mean:>17} | {cosine:>11} "
        f"| {use:19} |"
    )


def _extra(name: str, value: Any) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"- {name}: {_number(value)}"]
    lines = [f"- {name}"]
    for key, entry in value.items():
        if isinstance(entry, Mapping):
            entry = ", ".join(f"{inner} {_number(number)}" for inner, number in entry.items())
        lines.append(f"  - {key}: {_number(entry)}")
    return lines


def _number(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_number(entry) for entry in value)
    return f"{value:.2f}" if isinstance(value, float) else str(value)
