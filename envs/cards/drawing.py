"""The card duel as shapes: the table of `render.py`, on a canvas that keeps what is drawn."""

from __future__ import annotations

from typing import Any

from league.envs.cards.render import HIGH, NIGHT, SEA, SLOT, WIDE, draw_table, slot_box
from league.envs.cards.rules import SLOTS, Rules
from league.envs.drawing import Colour, Drawing, Point

Box = tuple[float, float, float, float]


class Table:
    """The methods of `render.Canvas` over a `Drawing`."""

    def __init__(self, seen: Drawing) -> None:
        self._seen = seen
        self.polygon, self.text = seen.polygon, seen.text

    def box(self, box: Box, fill: Colour | None = None, line: Colour | None = None, width: float = 0.3) -> None:
        """A rectangle: left, top, right, bottom."""
        self._seen.box(box[:2], box[2:], fill, line, width)

    def disc(self, x: float, y: float, radius: float, fill: Colour, line: Colour | None = None) -> None:
        """A filled circle."""
        self._seen.oval((x, y), (radius, radius), fill, line, 0.25)

    def line(self, points: list[Point], width: float, fill: Colour) -> None:
        """Through all points."""
        self._seen.line(points, width, fill)


def drawing(record: Any, rules: Rules, seat: int | None = None) -> Drawing:
    """One match (an element of STATE_DTYPE) as it stands; both hands are open, or that of `seat` alone."""
    seen = Drawing((0.0, 0.0, WIDE, HIGH), NIGHT)
    table = Table(seen)
    with seen.within("table"):
        seen.box((-WIDE, HIGH / 2), (2 * WIDE, 2 * HIGH), SEA)
        for side in (0, 1):
            for slot in range(SLOTS):
                table.box(slot_box(side, slot), SLOT, (255, 255, 255, 50))
    draw_table(table, record, rules, ("", ""), shows_next=False, hidden=None if seat is None else 1 - seat)
    return seen
