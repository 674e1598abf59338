"""A pen that draws in the unit square of whatever it was pointed at.

Figures are written once, in coordinates from 0 to 1 with y growing downwards, and drawn at any
size, place and facing. Knows shapes and the canvas; knows nothing of cats.
"""

from collections.abc import Sequence

from PIL import ImageDraw

Colour = tuple[int, int, int] | tuple[int, int, int, int]
Point = tuple[float, float]


class Pen:
    """Shapes in a square of a canvas, mirrored or not.

    The canvas is drawn on through an "RGBA" `ImageDraw`, so that colours with four parts blend.
    """

    def __init__(
        self,
        draw: ImageDraw.ImageDraw,
        left: float,
        top: float,
        side: float,
        mirrored: bool = False,
    ) -> None:
        self._draw = draw
        self._top = top
        self._side = side
        self._left = left + side if mirrored else left
        self._across = -side if mirrored else side

    def at(self, centre: float, base: float, side: float) -> "Pen":
        """A pen for the smaller square that stands on (centre, base)."""
        inner = Pen.__new__(Pen)
        inner._draw = self._draw
        inner._top = self._top + (base - side) * self._side
        inner._side = self._side * side
        inner._left = self._left + (centre - side / 2) * self._across
        inner._across = self._across * side
        return inner

    def unmirrored(self) -> "Pen":
        """A pen for the same square in which right is right: for letters."""
        return Pen(self._draw, min(self._left, self._left + self._across), self._top, self._side)

    def ellipse(
        self, x: float, y: float, rx: float, ry: float, fill: Colour, edge: Colour | None = None
    ) -> None:
        """An ellipse around (x, y)."""
        middle, across = self._left + x * self._across, rx * self._side
        top, down = self._top + y * self._side, ry * self._side
        box = (middle - across, top - down, middle + across, top + down)
        self._draw.ellipse(box, fill=fill, outline=edge, width=self._width(_EDGE) if edge else 0)

    def polygon(self, points: Sequence[Point], fill: Colour, edge: Colour | None = None) -> None:
        """A shape with straight sides."""
        spots = self._spots(points)
        self._draw.polygon(spots, fill=fill)
        if edge:
            self._draw.line(
                [*spots, spots[0], spots[1]], fill=edge, width=self._width(_EDGE), joint="curve"
            )

    def rectangle(
        self,
        left: float,
        top: float,
        right: float,
        bottom: float,
        fill: Colour,
        edge: Colour | None = None,
    ) -> None:
        """An upright rectangle."""
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        self.polygon(corners, fill, edge)

    def blob(self, points: Sequence[Point], fill: Colour, edge: Colour | None = None) -> None:
        """A shape with a smooth outline through the points."""
        self.polygon(smooth(points, closed=True), fill, edge)

    def line(self, points: Sequence[Point], colour: Colour, width: float) -> None:
        """A stroke with round ends; `width` is a share of the square's side."""
        spots = self._spots(points)
        thick = self._width(width)
        self._draw.line(spots, fill=colour, width=thick, joint="curve")
        half = thick / 2 - 0.5
        if half > 0.5:
            for x, y in (spots[0], spots[-1]):
                self._draw.ellipse((x - half, y - half, x + half, y + half), fill=colour)

    def curve(self, points: Sequence[Point], colour: Colour, width: float) -> None:
        """A smooth stroke through the points."""
        self.line(smooth(points, closed=False), colour, width)

    def ring(self, x: float, y: float, radius: float, colour: Colour, width: float) -> None:
        """A circle that is not filled."""
        middle, down = self._left + x * self._across, self._top + y * self._side
        far = radius * self._side
        box = (middle - far, down - far, middle + far, down + far)
        self._draw.ellipse(box, outline=colour, width=self._width(width))

    def _spots(self, points: Sequence[Point]) -> list[Point]:
        return [(self._left + x * self._across, self._top + y * self._side) for x, y in points]

    def _width(self, share: float) -> int:
        return max(1, round(share * self._side))


_EDGE = 0.022
"""Width of outlines, as a share of the square's side."""


def smooth(points: Sequence[Point], closed: bool, steps: int = 6) -> list[Point]:
    """Points of a Catmull-Rom curve through `points`.

    >>> len(smooth([(0, 0), (1, 0), (1, 1)], closed=True, steps=4))
    12
    >>> smooth([(0, 0), (1, 0)], closed=False, steps=2)
    [(0.0, 0.0), (0.5, 0.0), (1, 0)]
    """
    number = len(points)
    if closed:
        ring = [points[-1], *points, points[0], points[1]]
        spans = number
    else:
        ring = [points[0], *points, points[-1]]
        spans = number - 1
    path: list[Point] = []
    for span in range(spans):
        (ax, ay), (bx, by), (cx, cy), (dx, dy) = ring[span : span + 4]
        for step in range(steps):
            t = step / steps
            u, v = t * t, t * t * t
            a, b, c, d = 2 * u - t - v, 2 - 5 * u + 3 * v, t + 4 * u - 3 * v, v - u
            path.append(
                (
                    0.5 * (a * ax + b * bx + c * cx + d * dx),
                    0.5 * (a * ay + b * by + c * cy + d * dy),
                )
            )
    if not closed:
        path.append(points[-1])
    return path
