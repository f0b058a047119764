"""Drawings: what a match looks like as shapes, which are data. Players in a browser, films and terminals draw them.

A game that can be drawn has `drawing(batch, row) -> Drawing`, of plain Python `Match.drawing() -> Drawing`. Lengths are
the game's own; `view` says which part of its world is seen, so a camera may follow whom it likes. What `hud` holds lies
over it, in a frame that does not move.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from math import hypot, isfinite
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

Point = tuple[float, float]
Colour = tuple[int, ...]
"""Red, green, blue and, where it is not opaque, alpha; 0 to 255 each."""
Kind = Literal["line", "polygon", "oval", "text"]
Layer = Literal["", "boxes"]
HUD_SIZE = (160.0, 90.0)
"""Width and height of what lies over a drawing, from its upper left corner."""
MAX_SHAPES = 5_000
"""Of one drawing; more would make a page of it that no browser likes."""
MAX_TEXT = 200
SEATS: tuple[Colour, Colour] = (86, 180, 233), (240, 140, 20)
"""Sky blue and orange: told apart by the colour-blind (after Okabe and Ito 2008)."""


class Shape(NamedTuple):
    """One shape. Where two drawings have the same `group`, its shapes are taken for the same ones that have moved."""

    kind: Kind
    group: str
    layer: Layer
    """`boxes`: what the rules see and players do not, shown where that is wanted."""
    is_hud: bool
    points: tuple[float, ...]
    """x, y, x, y, ...: of an oval its middle and its half axes, of a text its middle."""
    fill: Colour | None
    line: Colour | None
    width: float
    """Of lines, in units; of a text its height."""
    text: str = ""
    most: float = 0.0
    """Of a text: the width that it may have; 0: any."""


class Drawing:
    """A match as it stands, as shapes, the later ones over the earlier ones.

    Args:
        view: (left, top, right, bottom) of the world that is seen. With `top` above `bottom`, y grows up.
        background: colour behind everything.
    """

    def __init__(self, view: tuple[float, float, float, float], background: Colour = (24, 28, 40)) -> None:
        self.view = tuple(float(x) for x in view)
        self.background = background
        self.shapes: list[Shape] = []
        self.held: tuple[frozenset[str], ...] = ()
        """Names of the keys (`KEYS`) that each seat held in the step before, where the game can tell: what its own bots
        do is known from it."""
        self._group, self._layer, self._is_hud = "", "", False

    @contextmanager
    def within(self, group: str = "", *, layer: Layer = "", is_hud: bool = False) -> Iterator[None]:
        """What is drawn within it belongs to `group`, and to that layer; `is_hud`: it lies over the drawing."""
        before = self._group, self._layer, self._is_hud
        self._group, self._layer, self._is_hud = group or before[0], layer or before[1], is_hud or before[2]
        try:
            yield
        finally:
            self._group, self._layer, self._is_hud = before

    def line(self, points: Sequence[Point], width: float, colour: Colour) -> None:
        """Straight lines through all points, with round ends."""
        self._add("line", [x for point in points for x in point], None, colour, width)

    def dashes(self, a: Point, b: Point, colour: Colour, width: float = 0.06, step: float = 0.22) -> None:
        """A broken line."""
        count = max(1, round(hypot(b[0] - a[0], b[1] - a[1]) / step / 2)) * 2 + 1
        marks = [(a[0] + (b[0] - a[0]) * i / count, a[1] + (b[1] - a[1]) * i / count) for i in range(count + 1)]
        for start, end in list(pairwise(marks))[::2]:
            self.line([start, end], width, colour)

    def polygon(
        self, points: Sequence[Point], colour: Colour | None, line: Colour | None = None, width: float = 0.05
    ) -> None:
        """A filled area, and a line around it."""
        self._add("polygon", [x for point in points for x in point], colour, line, width)

    def box(
        self, low: Point, high: Point, fill: Colour | None = None, line: Colour | None = None, width: float = 0.06
    ) -> None:
        """A rectangle between two corners."""
        self.polygon([low, (high[0], low[1]), high, (low[0], high[1])], fill, line, width)

    def dashed_box(self, low: Point, high: Point, colour: Colour) -> None:
        """A rectangle of broken lines."""
        for a, b in pairwise([low, (high[0], low[1]), high, (low[0], high[1]), low]):
            self.dashes(a, b, colour, step=0.3)

    def oval(
        self, middle: Point, half: Point, fill: Colour | None = None, line: Colour | None = None, width: float = 0.06
    ) -> None:
        """An ellipse by its half axes."""
        self._add("oval", [*middle, *half], fill, line, width)

    def text(self, middle: Point, text: str, height: float, colour: Colour, most: float | None = None) -> None:
        """One line of text; longer than `most` units, it is made narrower.

        The texts `seat 0` and `seat 1` are shown as the names of who plays, where these are known.
        """
        self._add("text", list(middle), colour, None, height, " ".join(str(text).split())[:MAX_TEXT], most or 0.0)

    def _add(
        self,
        kind: Kind,
        points: Sequence[float],
        fill: Colour | None,
        line: Colour | None,
        width: float,
        text: str = "",
        most: float = 0.0,
    ) -> None:
        if len(self.shapes) >= MAX_SHAPES:
            raise ValueError(f"a drawing may have {MAX_SHAPES:,} shapes; draw fewer")
        numbers = tuple(round(float(x), 3) for x in points)
        self.shapes.append(
            Shape(kind, self._group, self._layer, self._is_hud, numbers, fill, line, float(width), text, most)  # type: ignore[arg-type]
        )


def problem_of(drawing: object) -> str:
    """Why something cannot be shown as a drawing; empty where it can.

    Raises:
        TypeError, ValueError: a colour or a number is none.
    """
    if not isinstance(drawing, Drawing):
        return f"it is of type {type(drawing).__name__}, not league.envs.drawing.Drawing; return one"
    view = drawing.view
    if len(view) != 4 or not all(map(isfinite, view)) or view[0] == view[2] or view[1] == view[3]:
        return f"its view {drawing.view} must be (left, top, right, bottom) of an area"
    colour_text(drawing.background)
    for number, shape in enumerate(drawing.shapes):
        to_json(shape)
        if not all(map(isfinite, (*shape.points, shape.width, shape.most))):
            return f"shape {number} ({shape.kind}) has a number that is not finite: {shape.points}"
    return ""


def as_picture(found: Any) -> npt.NDArray[np.uint8]:
    """What a game's `render` gave as a picture (height, width, 3) uint8.

    Raises:
        TypeError: it is none.
    """
    try:
        picture = np.asarray(found)
    except ValueError:  # its rows are of unequal lengths
        picture = np.asarray(None)
    is_shaped = picture.ndim == 3 and picture.shape[-1] == 3 and picture.size > 0
    if not is_shaped or picture.dtype.kind not in "iu" or picture.min() < 0 or picture.max() > 255:
        what = f"an array {picture.shape} of {picture.dtype}" if picture.ndim else type(found).__name__
        raise TypeError(f"render() gave {what}, and must give an array (height, width, 3) of numbers from 0 to 255")
    return picture.astype(np.uint8, copy=False)


def colour_text(colour: Colour | None) -> str:
    """A colour as `#rrggbb` or `#rrggbbaa`; empty for none; a TypeError of what is no colour."""
    try:
        return "" if colour is None else "#" + "".join(f"{min(255, max(0, int(part))):02x}" for part in colour)
    except (TypeError, ValueError):
        raise TypeError(f"the colour {colour!r} must be numbers from 0 to 255: (red, green, blue)") from None


def to_json(shape: Shape) -> list[Any]:
    """A shape as a page has it."""
    place = (1 if shape.is_hud else 0) + (2 if shape.layer == "boxes" else 0)
    head: list[Any] = ["lpot".index(shape.kind[0]), shape.group, place, list(shape.points)]
    head += [colour_text(shape.fill), colour_text(shape.line), round(shape.width, 3)]
    return [*head, shape.text, round(shape.most, 2)] if shape.kind == "text" else head
