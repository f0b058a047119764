"""The small games as shapes: a matrix game's throws and sums, a poker table with its open cards."""

from __future__ import annotations

from typing import Any

from league.envs.drawing import SEATS, Drawing

PAPER, DIM, CARD, INK, FELT = (242, 243, 238), (140, 148, 166), (250, 248, 238), (22, 24, 34), (28, 74, 62)
VIEW = (0.0, 0.0, 160.0, 90.0)
MOST_SHOWN = 12
"""Actions of a matrix game that have a field of their own."""


def matrix(batch: Any, row: int) -> Drawing:
    """A matrix game: what both threw in the last round, in the table of payoffs, and their sums."""
    facts = batch.facts(row)
    payoff, last, sums = facts["payoff"], facts["last"], facts["sums"]
    seen = Drawing(VIEW)
    for seat, x in ((0, 22.0), (1, 138.0)):
        seen.text((x, 14.0), f"seat {seat}", 5.0, SEATS[seat])
        seen.text((x, 45.0), "-" if last[seat] < 0 else str(last[seat]), 26.0, PAPER)
        seen.text((x, 76.0), f"sum {sums[seat]:+g}", 6.0, SEATS[seat], 40.0)
    size = len(payoff)
    if size <= MOST_SHOWN:
        cell = 56.0 / size
        for i in range(size):
            seen.text((48.0, 19.0 + (i + 0.5) * cell), str(i), min(5.0, cell / 2), SEATS[0])
            seen.text((52.0 + (i + 0.5) * cell, 15.5), str(i), min(5.0, cell / 2), SEATS[1])
            for j in range(size):
                low = 52.0 + j * cell, 19.0 + i * cell
                is_last = (i, j) == (last[0], last[1])
                seen.box(low, (low[0] + cell - 0.6, low[1] + cell - 0.6), (70, 80, 110) if is_last else (36, 42, 60))
                middle = low[0] + cell / 2, low[1] + cell / 2
                seen.text(middle, f"{payoff[i][j]:g}", min(7.0, cell / 2.2), PAPER if is_last else DIM, cell)
    seen.text((80.0, 83.0), f"round {facts['round']} of {facts['rounds']}", 4.5, DIM)
    return seen


def poker(batch: Any, row: int, own: int | None = None) -> Drawing:
    """A poker table: both hands open or that of `own` alone, the open card once it lies there, chips, what was said."""
    facts = batch.facts(row)
    seen = Drawing(VIEW, INK)
    seen.oval((80.0, 45.0), (72.0, 38.0), FELT, (90, 70, 50), 2.0)
    for seat, x in ((0, 34.0), (1, 126.0)):
        colour = SEATS[seat]
        seen.text((x, 20.0), f"seat {seat}", 5.0, colour)
        _card(
            seen,
            x,
            44.0,
            facts["cards"][seat] if own in (None, seat) else None,
            colour if facts["mover"] == seat else None,
        )
        seen.text((x, 65.0), f"{facts['stakes'][seat]} in the pot", 4.0, PAPER)
        seen.text((x, 71.0), f"won {facts['won'][seat]:+g}", 4.0, DIM)
    if facts["board"] is not None:
        _card(seen, 80.0, 44.0, facts["board"], None)
    seen.text((80.0, 16.0), facts["said"] or "the cards are dealt", 4.5, PAPER, 90.0)
    seen.text((80.0, 76.0), f"deal {facts['deal'] + 1} of {facts['deals']}, seat {facts['mover']} decides", 4.0, DIM)
    return seen


def _card(seen: Drawing, x: float, y: float, rank: int | None, line: tuple[int, ...] | None) -> None:
    seen.box((x - 8.0, y - 12.0), (x + 8.0, y + 12.0), CARD, line or DIM, 1.6 if line else 0.5)
    seen.text((x, y), "?" if rank is None else "JQKA"[rank] if rank < 4 else str(rank), 14.0, INK)
