"""Which agents of a long board are shown where nobody asked for all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from league.boards.leaderboards import Entry

ENOUGH = 20
"""Agents up to which a board is shown as it is."""
HISTORICAL = 3
"""Snapshots of a run between its first and its latest one, evenly spaced, while that leaves the board short."""
IMPORTED = 10
"""Agents of imported files, the strongest first."""


def choose(entries: Sequence[Entry], also: str | None = None) -> frozenset[str]:
    """The ids of the agents that a brief board shows, of its entries.

    All of them up to `ENOUGH`. Else the bots; of each run its best snapshot (RUN@best) and its latest, and where the
    board remains short its first and some historical ones; of agents that are neither snapshots nor bots the best.

    Args:
        entries: of one board.
        also: an agent that is always shown.
    """
    if len(entries) <= ENOUGH:
        return frozenset(entry.agent_id for entry in entries)
    runs: defaultdict[str, list[tuple[int, Entry]]] = defaultdict(list)
    others: list[Entry] = []
    chosen = {entry.agent_id for entry in entries if entry.kind == "bot" or entry.is_best or entry.agent_id == also}
    for entry in entries:
        run, at, step = entry.name.rpartition("@")
        if entry.kind == "snapshot" and at and step.isdecimal():
            runs[run].append((int(step), entry))
        elif entry.kind != "bot":
            others.append(entry)
    chosen |= {entry.agent_id for entry in sorted(others, key=lambda x: -x.lower)[:IMPORTED]}
    historical: set[str] = set()
    for steps in runs.values():
        line = [entry for _, entry in sorted(steps, key=lambda pair: pair[0])]
        chosen.add(line[-1].agent_id)
        marks = [round(k * (len(line) - 1) / (HISTORICAL + 1)) for k in range(HISTORICAL + 1)]
        historical |= {line[k].agent_id for k in marks}
    return frozenset(chosen | historical if len(chosen | historical) <= 2 * ENOUGH else chosen)
