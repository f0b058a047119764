"""Files of matches that become evaluation rows: written all or nothing, and no game twice."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from league.acts import advance
from league.errors import UsageError
from league.store.codec import KINDS, Columns, encoded, naive, replay_columns, to_columns
from league.store.rows import AgentRow, GameRow, ImportRow
from league.store.view import Cursor, View
from league.types import MatchResult

Dated = tuple[MatchResult, datetime | None]
"""A match and when it ended, if that is known."""
MAX_AGENTS = 20_000
"""Of one game: a board of so many takes a minute at worst (docs/ratings.md)."""
_ROWS_AT_ONCE = 20_000
Earlier = Literal["refuse", "replace", "keep"]
"""What becomes of an earlier import of which a file has at least half of the games once more."""


class PackedMatches:
    """Evaluation matches on their way into the store, 130 bytes each: numbers in arrays, every text once.

    Args:
        matches: each with the moment at which it ended, if that is known; the `row` of each is its own.
    """

    def __init__(self, matches: Iterable[Dated] = ()) -> None:
        self._texts: dict[str, int] = {}
        self._columns: dict[str, array[int]] = {
            name: array(_CODES[np.dtype(column.dtype).kind]) for name, column in _MATCH.items()
        }
        self._replays: list[Columns] = []
        for match, at in matches:
            self.append(match, at)

    def append(self, match: MatchResult, at: datetime | None) -> None:
        """Adds a match."""
        row = to_columns(match, finished_at=_UNTIMED if at is None else (at - _EPOCH) // timedelta(microseconds=1))
        for name, numbers in self._columns.items():
            value = row[name]
            numbers.append(self._texts.setdefault(value, len(self._texts)) if isinstance(value, str) else value)
        self._replays += replay_columns(match, row)

    def __len__(self) -> int:
        return len(self._columns["row"])

    def batches(self, run: str, imported_at: datetime) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """The matches as arrays of the table's columns, a part at a time; what has no moment gets the import's."""
        texts = np.array([*self._texts, run], object)[:-1]
        for first in range(0, len(self), _ROWS_AT_ONCE):
            advance("matches", first, len(self))
            part: dict[str, npt.NDArray[Any]] = {}
            for name, column in _MATCH.items():
                numbers = self._columns[name]
                found = np.frombuffer(numbers, numbers.typecode)[first : first + _ROWS_AT_ONCE]
                part[name] = texts[found] if column.dtype is object else found.astype(column.dtype)
            part["run"][:] = run
            part["finished_at"][np.isnat(part["finished_at"])] = naive(imported_at)
            yield part

    def replays(self, run: str) -> list[Columns]:
        """The rows of the replays that the matches bring."""
        return [row | {"run": run} for row in self._replays]


_MATCH = KINDS["match"]
_CODES = {"O": "i", "i": "q", "u": "Q", "M": "q", "f": "d"}
"""Kind of a column -> code of its array; a text is its place among the texts."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNTIMED = -(2**63)
"""NumPy's moment that is none."""


@dataclass(frozen=True)
class MatchFile:
    """A file of matches that is to be imported."""

    name: str
    sha256: str
    """Of its content."""
    matches: PackedMatches
    agents: Sequence[AgentRow]
    """All that play in it."""
    games: Sequence[GameRow] = ()
    """What is known of theirs."""


def take_in(
    view: View, con: Cursor, file: MatchFile, run: str, earlier: Earlier, imported_at: datetime
) -> tuple[int, list[ImportRow]]:
    """Makes the table `given` of a file's matches under `run`, but for those that the store has already.

    con: the view's, within its `reading`.

    Returns:
        How many there are, and the earlier imports in whose place they come.

    Raises:
        UsageError: as `Store.add_import`.
    """
    _refuse_the_same(view, file)
    con.execute(f"CREATE OR REPLACE TEMP TABLE given AS SELECT {_typed()} WHERE false")
    for batch in file.matches.batches(run, imported_at):
        con.register("batch", batch)
        con.execute(f"INSERT INTO given SELECT {encoded('match')} FROM batch")
        con.unregister("batch")
    new = {"run": run, "imported_at": naive(imported_at)}
    replaced = view.select_rows(ImportRow, "repeated_imports", **new) if earlier == "replace" else []
    if earlier == "replace" and not replaced:
        raise UsageError(f"{file.name}: it has less than half of the games of any earlier import; leave --replace out")
    view.select("delete_stored_matches", replaced=[old.run for old in replaced])
    (fresh,) = con.execute("SELECT count(*) FROM given").fetchone() or (0,)
    if not fresh:
        raise UsageError(
            f"{file.name}: all {len(file.matches):,} matches are in {view.folder} already; nothing was changed"
        )
    if earlier == "refuse" and (again := view.select_rows(ImportRow, "repeated_imports", **new)):
        raise UsageError(_would_count_twice(file.name, again))
    for (game_id,) in con.execute("SELECT DISTINCT game_id FROM given ORDER BY game_id").fetchall():
        _refuse_too_many(view, file, game_id)
    return int(fresh), replaced


def _typed() -> str:
    return ", ".join(f'NULL::{column.sql} AS "{name}"' for name, column in _MATCH.items())


def _refuse_too_many(view: View, file: MatchFile, game_id: str) -> None:
    """Refuses games with which nobody of their game could be rated any more."""
    _, pairs = view.select("met_pairs", game_id=game_id)
    names = {name: i for i, name in enumerate(sorted({agent for pair in pairs for agent in pair}))}
    if len(names) > MAX_AGENTS:
        raise UsageError(
            f"{file.name}: with it {len(names):,} agents have games, more than the {MAX_AGENTS:,} that are rated;"
            f" import fewer"
        )
    from league.maths.davidson import check_size  # here, since it loads scipy

    ends = np.array([[names[a], names[b]] for a, b in pairs], np.int64).reshape(-1, 2)
    check_size(len(names), *ends.T)


def _refuse_the_same(view: View, file: MatchFile) -> None:
    for same in view.select_rows(ImportRow, "imports"):
        if same.sha256 == file.sha256:
            raise UsageError(
                f"{file.name}: its content was imported before, as {same.run} ({same.matches:,} matches,"
                f" {same.imported_at:%Y-%m-%d %H:%M} UTC); nothing was changed, and nothing is left to do"
            )


def _would_count_twice(file: str, again: Sequence[ImportRow]) -> str:
    named = ", ".join(f"{row.run} ({row.matches:,} games of {row.file})" for row in again)
    return (
        f"{file}: it has most games of an earlier import once more, of {named}; pass --replace to put this file in its"
        f" place, or --as-new if these are other games; nothing was changed"
    )
