"""A small drawing for each creature, from a few shapes: a bird, a fish, a shell, a crab, a jellyfish, an otter."""

from __future__ import annotations

from math import cos, pi, sin
from typing import Any

from league.envs.cards.catalogue import NAMES
from league.envs.drawing import Colour, Drawing

INK = (18, 24, 38)
FORMS: dict[str, tuple[str, Colour]] = {
    "shrimp": ("crab", (232, 138, 120)),
    "limpet": ("dome", (150, 132, 110)),
    "gull": ("bird", (250, 250, 250)),
    "crab": ("crab", (206, 84, 60)),
    "eel": ("snake", (86, 104, 66)),
    "urchin": ("star", (92, 60, 120)),
    "jellyfish": ("bell", (206, 120, 190)),
    "otter": ("seal", (134, 96, 64)),
    "archerfish": ("fish", (222, 190, 70)),
    "seahorse": ("snake", (226, 150, 60)),
    "barracuda": ("fish", (120, 140, 160)),
    "heron": ("bird", (120, 150, 190)),
    "nurse_shark": ("fish", (150, 120, 96)),
    "torpedo_ray": ("ray", (110, 92, 78)),
    "lamprey": ("snake", (96, 84, 110)),
    "turtle": ("dome", (66, 128, 84)),
    "octopus": ("bell", (196, 76, 66)),
    "pelican": ("bird", (248, 226, 190)),
    "orca": ("fish", (34, 38, 48)),
    "whale": ("fish", (70, 104, 150)),
}
"""Creature -> its form and colour; one without is drawn as a fish."""


def sketch(seen: Drawing, card_id: int, middle: tuple[float, float], half: float) -> None:
    """Draws a creature about `middle`, `half` units to each side."""
    form, colour = FORMS.get(NAMES[card_id - 1], ("fish", (120, 140, 160)))
    x, y = middle

    def at(dx: float, dy: float) -> tuple[float, float]:
        return x + half * dx, y + half * dy

    {
        "fish": _fish,
        "bird": _bird,
        "dome": _dome,
        "crab": _crab,
        "snake": _snake,
        "star": _star,
        "bell": _bell,
        "seal": _seal,
        "ray": _ray,
    }[form](seen, at, half, colour)


def _oval(seen: Drawing, at: Any, middle: tuple[float, float], rx: float, ry: float, colour: Colour) -> None:
    turns = [2 * pi * i / 40 for i in range(40)]
    seen.polygon([at(middle[0] + rx * cos(t), middle[1] + ry * sin(t)) for t in turns], colour)


def _eye(seen: Drawing, at: Any, x: float, y: float, half: float) -> None:
    seen.oval(at(x, y), (0.13 * half, 0.13 * half), (255, 255, 255))
    seen.oval(at(x, y), (0.07 * half, 0.07 * half), INK)


def _fish(seen: Drawing, at: Any, half: float, colour: Colour) -> None:
    seen.polygon([at(0.5, 0.0), at(1.0, -0.45), at(0.9, 0.0), at(1.0, 0.45)], colour)
    seen.polygon([at(-0.1, -0.35), at(0.25, -0.75), at(0.35, -0.2)], colour)
    _oval(seen, at, (-0.15, 0.0), 0.85, 0.42, colour)
    _oval(seen, at, (-0.2, 0.2), 0.6, 0.16, (255, 255, 255, 110))
    _eye(seen, at, -0.65, -0.1, half)


def _bird(seen: Drawing, at: Any, half: float, colour: Colour) -> None:
    seen.polygon([at(-0.1, 0.1), at(-0.9, -0.7), at(0.35, -0.1)], colour)
    seen.polygon([at(-0.1, 0.1), at(0.75, -0.85), at(0.35, 0.1)], (*(round(0.8 * part) for part in colour[:3]),))
    seen.polygon([at(0.5, 0.1), at(1.0, 0.25), at(0.5, 0.35)], colour)
    _oval(seen, at, (0.0, 0.2), 0.6, 0.26, colour)
    _oval(seen, at, (-0.6, 0.05), 0.24, 0.24, colour)
    seen.polygon([at(-0.78, -0.05), at(-1.1, 0.15), at(-0.74, 0.2)], (240, 160, 40))
    _eye(seen, at, -0.62, 0.0, half)


def _dome(seen: Drawing, at: Any, half: float, colour: Colour) -> None:
    _oval(seen, at, (-0.75, 0.35), 0.25, 0.2, (150, 170, 120))
    seen.polygon([at(0.85 * cos(pi + pi * i / 24), 0.5 + 0.95 * sin(pi + pi * i / 24)) for i in range(25)], colour)
    dark = tuple(round(0.7 * part) for part in colour)
    for i in (-2, 0, 2):
        seen.line([at(0.0, -0.4), at(0.35 * i, 0.45)], 0.25, dark)
    seen.line([at(-0.85, 0.5), at(0.85, 0.5)], 0.4, dark)
    _eye(seen, at, -0.82, 0.28, half)


def _crab(seen: Drawing, at: Any, half: float, colour: Colour) -> None:
    for side in (-1, 1):
        for i in range(3):
            knee = at(side * 0.85, 0.1 + 0.22 * i)
            seen.line([at(side * 0.4, 0.15), knee, at(side * 1.0, 0.4 + 0.22 * i)], 0.35, colour)
        seen.line([at(side * 0.4, 0.0), at(side * 0.8, -0.35)], 0.45, colour)
        _oval(seen, at, (side * 0.8, -0.5), 0.22, 0.26, colour)
        seen.polygon([at(side * 0.8, -0.5), at(side * 0.7, -0.85), at(side * 0.9, -0.85)], (206, 222, 222))
    _oval(seen, at, (0.0, 0.15), 0.6, 0.4, colour)
    _eye(seen, at, -0.2, -0.1, half)
    _eye(seen, at, 0.2, -0.1, half)


def _snake(seen: Drawing, at: Any, half: float, colour: Colour) -> None:
    points = [at(-0.8 + 1.7 * i / 40, 0.4 * sin(2 * pi * i / 26)) for i in range(41)]
    seen.line(points, 0.34 * half, colour)
    seen.line(points, 0.1 * half, (255, 255, 255, 80))
    _oval(seen, at, (-0.8, 0.0), 0.26, 0.22, colour)
    _eye(seen, at, -0.86, -0.05, half)


def _star(seen: Drawing, at: Any, half: float, colour: Colour) -> None:
    spikes = [(0.95 if i % 2 == 0 else 0.5, i * pi / 11) for i in range(22)]
    seen.polygon([at(r * cos(t), r * sin(t)) for r, t in spikes], colour)
    _oval(seen, at, (0.0, 0.0), 0.3, 0.3, tuple(min(255, part + 50) for part in colour))


def _bell(seen: Drawing, at: Any, half: float, colour: Colour) -> None:
    for i in range(-3, 4):
        points = [at(0.2 * i + 0.08 * sin(j / 2 + i), -0.05 + 0.1 * j) for j in range(10)]
        seen.line(points, 0.3, colour)
    seen.polygon([at(0.75 * cos(pi + pi * i / 24), 0.05 + 0.9 * sin(pi + pi * i / 24)) for i in range(25)], colour)
    _eye(seen, at, -0.2, -0.25, half)
    _eye(seen, at, 0.2, -0.25, half)


def _seal(seen: Drawing, at: Any, half: float, colour: Colour) -> None:
    seen.polygon([at(0.5, 0.2), at(1.0, 0.0), at(0.95, 0.5)], colour)
    _oval(seen, at, (0.1, 0.2), 0.75, 0.36, colour)
    _oval(seen, at, (-0.6, -0.15), 0.34, 0.32, colour)
    _oval(seen, at, (-0.8, -0.05), 0.16, 0.13, (236, 214, 186))
    seen.oval(at(-0.9, -0.1), (0.07 * half, 0.07 * half), INK)
    _eye(seen, at, -0.58, -0.22, half)


def _ray(seen: Drawing, at: Any, half: float, colour: Colour) -> None:
    seen.line([at(0.3, 0.0), at(1.05, 0.25)], 0.3, colour)
    seen.polygon([at(-0.8, 0.0), at(-0.1, -0.8), at(0.5, 0.0), at(-0.1, 0.8)], colour)
    seen.polygon([at(-0.35, 0.0), at(-0.1, -0.25), at(0.15, 0.0), at(-0.1, 0.25)], (250, 220, 90))
    _eye(seen, at, -0.5, -0.15, half)
    _eye(seen, at, -0.5, 0.15, half)
