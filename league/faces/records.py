"""What a page shows, as plain records: report and live page draw the same ones by the same script.

`readings.py` makes them of a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from league.boards.leaderboards import Entry
from league.errors import one_line
from league.faces.provenance import Provenance
from league.maths.ratings import Unit
from league.printing import plain
from league.store.rows import EventRow, RewardTerm


@dataclass(frozen=True)
class Line:
    """What has a colour of its own: a run, or the runs that differ by their seed alone."""

    id: str
    name: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class Series:
    """One curve, or one row of bars."""

    name: str
    line: str
    """The id of the line whose colour it has; empty: a colour of its own within the panel."""
    x: Sequence[float | str]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    faint: bool = False
    """A single seed behind what all come to."""


@dataclass(frozen=True)
class Panel:
    """One figure: `lines`, `stack` (areas that lie on each other) or `bars`."""

    title: str
    series: tuple[Series, ...]
    kind: str = "lines"
    healthy: tuple[float, float] | None = None
    """Between which values a healthy run is."""
    range: tuple[float, float] | None = None
    """Of the values that are shown; None: those that are there."""
    even: float | None = None
    """A value that is marked, such as 0.5 of a score."""
    note: str = ""


@dataclass(frozen=True)
class FigureGroup:
    """Figures that belong together."""

    id: str
    title: str
    note: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Map:
    """Who beats whom: scores, games and 95 % intervals of the agent of a row against that of a column.

    kept: [row, column, key of a match of theirs].
    """

    names: tuple[str, ...]
    judged: str
    """What the scores are called."""
    score: tuple[tuple[float | None, ...], ...]
    games: tuple[tuple[int, ...], ...]
    lower: tuple[tuple[float | None, ...], ...]
    upper: tuple[tuple[float | None, ...], ...]
    kept: tuple[tuple[int, int, str], ...]
    num_left_out: int


@dataclass(frozen=True)
class FilmedMatch:
    """A match that is kept whole. a sat in seat 0; winner: a seat, or -1."""

    key: str
    a: str
    b: str
    winner: int
    ending: str
    steps: int
    run: str
    watch: str
    """The command that shows it; empty of agents that only their ids name."""


@dataclass(frozen=True)
class AlarmLine:
    """A sentence of `league alarms`; state: raised, quiet or unknown."""

    kind: str
    about: str
    state: str
    sentence: str
    command: str


@dataclass(frozen=True)
class RunCard:
    """One run: what it is, how it was made, and what its reward terms brought."""

    run: str
    line: str
    status: str
    stage: str
    preset: str
    seed: int
    steps: int
    total_steps: int | None
    device: str
    started_at: str
    updated_at: str
    fingerprint: str
    parent: str
    role: str
    made: Provenance
    terms: tuple[RewardTerm, ...]
    events: tuple[EventRow, ...]


@dataclass(frozen=True)
class GameCard:
    """Everything of one game."""

    game: str
    game_id: str
    summary: str
    lines: tuple[Line, ...]
    sections: tuple[FigureGroup, ...]
    board: tuple[Entry, ...]
    notes: tuple[str, ...]
    unit: Unit
    """Of the ratings."""
    anchor: str
    map: Map
    matches: tuple[FilmedMatch, ...]
    alarms: tuple[AlarmLine, ...]
    runs: tuple[RunCard, ...]


@dataclass(frozen=True)
class Listed:
    """A run of the store, shown or not."""

    run: str
    game: str
    stage: str
    status: str
    steps: int
    seed: int
    is_shown: bool


@dataclass(frozen=True)
class Document:
    """What one page shows. title: the runs, by name."""

    title: str
    store: str
    made_at: str
    summary: str
    games: tuple[GameCard, ...]
    listed: tuple[Listed, ...]


def to_json(document: Document) -> dict[str, Any]:
    """The same as JSON has it; what a name could hide or break a line with is spelt out."""
    found: dict[str, Any] = _visible(plain(document))
    return found


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return one_line(value)
    if isinstance(value, dict):
        return {one_line(key): _visible(item) for key, item in value.items()}
    return [_visible(item) for item in value] if isinstance(value, list) else value
