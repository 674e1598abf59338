"""A pen that draws shapes in a square of the canvas.

Figures are defined in coordinates from 0 to 1, with y growing downwards, and drawn at any size and
position, mirrored or not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import cos, pi, sin

from PIL import ImageDraw

Colour = tuple[int, int, int] | tuple[int, int, int, int]
Point = tuple[float, float]


@dataclass(frozen=True)
class Pen:
    """Shapes in a square of a canvas.

    The canvas is drawn on through an "RGBA" `ImageDraw`, so that colours with four parts blend.
    """

    draw: ImageDraw.ImageDraw
    left: float
    """Where x is 0; the right edge of the square if it is mirrored."""
    top: float
    width: float
    """Side of the square in pixels, negative if it is mirrored."""

    def mirrored(self) -> "Pen":
        """A pen for the same square with left and right swapped."""
        return replace(self, left=self.left + self.width, width=-self.width)

    def unmirrored(self) -> "Pen":
        """A pen for the same square in which right is right: for letters."""
        return self.mirrored() if self.width < 0 else self

    def inside(self, centre: float, base: float, side: float) -> "Pen":
        """A pen for the smaller square that stands on (centre, base)."""
        left = self.left + (centre - side / 2) * self.width
        top = self.top + (base - side) * abs(self.width)
        return Pen(self.draw, left, top, self.width * side)

    def ellipse(
        self, x: float, y: float, rx: float, ry: float, fill: Colour, edge: Colour | None = None
    ) -> None:
        """An ellipse around (x, y)."""
        outline = self._pixels(_EDGE) if edge else 0
        self.draw.ellipse(self._box(x, y, rx, ry), fill=fill, outline=edge, width=outline)

    def polygon(self, points: Sequence[Point], fill: Colour, edge: Colour | None = None) -> None:
        """A shape with straight sides."""
        spots = self._spots(points)
        self.draw.polygon(spots, fill=fill)
        if edge:
            self.draw.line(
                [*spots, spots[0], spots[1]], fill=edge, width=self._pixels(_EDGE), joint="curve"
            )

    def rectangle(
        self, x0: float, y0: float, x1: float, y1: float, fill: Colour, edge: Colour | None = None
    ) -> None:
        """An upright rectangle from corner to corner."""
        self.polygon([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], fill, edge)

    def blob(self, points: Sequence[Point], fill: Colour, edge: Colour | None = None) -> None:
        """A shape with a smooth outline through the points."""
        self.polygon(smooth(points, closed=True), fill, edge)

    def line(self, points: Sequence[Point], colour: Colour, width: float) -> None:
        """A stroke with round ends; `width` is a share of the square's side."""
        spots = self._spots(points)
        thick = self._pixels(width)
        self.draw.line(spots, fill=colour, width=thick, joint="curve")
        half = thick / 2 - 0.5
        if half > 0.5:
            for x, y in (spots[0], spots[-1]):
                self.draw.ellipse((x - half, y - half, x + half, y + half), fill=colour)

    def curve(self, points: Sequence[Point], colour: Colour, width: float) -> None:
        """A smooth stroke through the points."""
        self.line(smooth(points, closed=False), colour, width)

    def ring(self, x: float, y: float, radius: float, colour: Colour, width: float) -> None:
        """A circle that is not filled."""
        box = self._box(x, y, radius, radius)
        self.draw.ellipse(box, outline=colour, width=self._pixels(width))

    def _box(self, x: float, y: float, rx: float, ry: float) -> tuple[float, float, float, float]:
        ((middle, down),) = self._spots([(x, y)])
        rx, ry = rx * abs(self.width), ry * abs(self.width)
        return middle - rx, down - ry, middle + rx, down + ry

    def _spots(self, points: Sequence[Point]) -> list[Point]:
        side = abs(self.width)
        return [(self.left + x * self.width, self.top + y * side) for x, y in points]

    def _pixels(self, share: float) -> int:
        return max(1, round(share * abs(self.width)))


_EDGE = 0.022
"""Width of outlines, as a share of the square's side."""


def smooth(points: Sequence[Point], closed: bool, steps: int = 6) -> list[Point]:
    """Points of a Catmull-Rom curve through `points`.

    >>> len(smooth([(0, 0), (1, 0), (1, 1)], closed=True, steps=4))
    12
    >>> smooth([(0, 0), (1, 0)], closed=False, steps=2)
    [(0.0, 0.0), (0.5, 0.0), (1, 0)]
    """
    ends = [points[0], points[1]] if closed else [points[-1]]
    ring = [points[-1] if closed else points[0], *points, *ends]
    path: list[Point] = []
    for span in range(len(ring) - 3):
        for step in range(steps):
            t = step / steps
            u, v = t * t, t * t * t
            a, b, c, d = 2 * u - t - v, 2 - 5 * u + 3 * v, t + 4 * u - 3 * v, v - u
            corners = zip(*ring[span : span + 4], strict=True)
            x, y = (0.5 * (a * p + b * q + c * r + d * s) for p, q, r, s in corners)
            path.append((x, y))
    return path if closed else [*path, points[-1]]


def spikes(
    number: int, x: float, y: float, outer: float, inner: float, start: float = 0.0
) -> list[Point]:
    """The outline of a star around (x, y): tips at a radius `outer`, dents between at `inner`."""
    turns = [(k * pi / number + start, inner if k % 2 else outer) for k in range(2 * number)]
    return [(x + radius * cos(angle), y + radius * sin(angle)) for angle, radius in turns]
