"""Small marks that show an action, and shadows and ponds on the ground.

The pen's unit square is a whole situation.
"""

from math import cos, pi, sin

from diverset.reproduce.scenes.palette import RGB
from diverset.reproduce.scenes.pen import Pen, spikes


def shadow(pen: Pen, x: float, base: float, radius: float) -> None:
    """A soft shadow on the ground."""
    for grow, alpha in ((1.0, 30), (0.8, 34), (0.55, 38)):
        pen.ellipse(x, base - 0.005, radius * grow, 0.045 * grow, (46, 50, 84, alpha))


def pond(pen: Pen, x: float, base: float, across: float, deep: float) -> None:
    """Water to swim in, `deep` being half its height."""
    across, deep = min(across, x, 1.0 - x), max(0.06, deep)
    middle = min(base, 0.99) - deep
    pen.ellipse(x, middle, across, deep, (112, 178, 204))
    pen.ellipse(x, middle + deep * 0.06, across * 0.95, deep * 0.88, (158, 212, 230))
    pen.ellipse(x, middle + deep * 0.2, across * 0.7, deep * 0.6, (174, 222, 236))


def glow(pen: Pen, x: float, y: float, radius: float) -> None:
    """Light behind something that shines."""
    for grow, alpha in ((1.0, 60), (0.82, 70), (0.64, 90)):
        pen.ellipse(x, y, radius * grow, radius * grow, (255, 244, 176, alpha))


def sparkles(pen: Pen, x: float, y: float, radius: float) -> None:
    """Four-pointed sparks around something that shines."""
    for angle, size in ((-0.75, 0.1), (0.2, 0.075), (0.78, 0.09), (-0.3, 0.06)):
        turn = (angle - 0.5) * pi
        far = max(0.3, radius)
        sx = min(0.92, max(0.08, x + far * 1.05 * cos(turn)))
        sy = min(0.92, max(0.08, y + far * sin(turn)))
        points = [
            (min(1.0, max(0.0, px)), min(1.0, max(0.0, py)))
            for px, py in spikes(4, sx, sy, size, size * 0.3)
        ]
        pen.polygon(points, (255, 250, 214), (214, 150, 40))


def springs(pen: Pen, x: float, base: float, reach: float, ink: RGB) -> None:
    """Short upright lines under something that jumps, `reach` to either side."""
    for share in (-0.6, 0.0, 0.6):
        spot = x + share * reach
        pen.line([(spot, base - 0.01), (spot, base - 0.12)], ink, 0.03)


def snores(pen: Pen, ink: RGB) -> None:
    """Three letters z, growing upwards; the pen's square is that of the mark."""
    for x, y, size in ((0.02, 0.74, 0.2), (0.3, 0.4, 0.26), (0.62, 0.04, 0.32)):
        pen.line([(x, y), (x + size, y), (x, y + size), (x + size, y + size)], ink, 0.075)


def notes(pen: Pen, ink: RGB) -> None:
    """Two joined notes; the pen's square is that of the mark."""
    pen.line([(0.3, 0.78), (0.3, 0.14), (0.9, 0.06), (0.9, 0.68)], ink, 0.1)
    pen.ellipse(0.18, 0.8, 0.17, 0.13, ink)
    pen.ellipse(0.78, 0.7, 0.17, 0.13, ink)


def streaks(pen: Pen, edge: float, y: float, height: float, ink: RGB) -> None:
    """Lines behind something fast, whose tail is at `edge`."""
    for shift, gap, length in ((-0.5, 0.0, 0.17), (0.0, -0.05, 0.15), (0.5, 0.0, 0.17)):
        end = max(0.12, edge + gap)
        level = y + shift * height
        pen.line([(max(0.015, end - length), level), (end, level)], ink, 0.03)
