"""Files of matches that become evaluation rows: written all or nothing, and no game twice."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from league.acts import advance
from league.errors import UsageError, nearest
from league.store.codec import TABLES, Columns, naive, replay_columns, to_columns
from league.store.connection import Cursor, select_rows
from league.store.rows import AgentRow, ImportRow, now
from league.store.sql import sql
from league.store.waiting import write_batch
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
            name: array(_CODES[np.dtype(kind).kind]) for name, kind in _MATCH.columns.items()
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
            for name, kind in _MATCH.columns.items():
                numbers = self._columns[name]
                found = np.frombuffer(numbers, numbers.typecode)[first : first + _ROWS_AT_ONCE]
                part[name] = texts[found] if kind is object else found.astype(kind)
            part["run"][:] = run
            part["finished_at"][np.isnat(part["finished_at"])] = naive(imported_at)
            yield part

    def replays(self, run: str) -> list[Columns]:
        """The rows of the replays that the matches bring."""
        return [row | {"run": run} for row in self._replays]


_MATCH = TABLES["match"]
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
    """Those that it brings."""


def write_import(
    con: Cursor, path: Path, file: MatchFile, wanted: str | None, earlier: Earlier
) -> tuple[ImportRow, list[ImportRow]]:
    """Writes a file's matches and agents, but for what is stored already, in the transaction of `con`.

    path: the store's. wanted: the `run` that the matches get; the next free `import-N` if None.

    Returns:
        The import as it was written, and those that it replaced.

    Raises:
        UsageError: as `Writer.add_import`.
    """
    imported_at = now()
    _refuse_the_same(con, file)
    run = _free_name(con, path, wanted)
    new = {"run": run, "imported_at": naive(imported_at)}
    for batch in file.matches.batches(run, imported_at):
        con.register("batch", batch)
        con.execute(sql(_MATCH.write))
        con.unregister("batch")
    write_batch(con, "replay", file.matches.replays(run))
    replaced = select_rows(con, ImportRow, "repeated_imports", **new) if earlier == "replace" else []
    if earlier == "replace" and not replaced:
        raise UsageError(f"{file.name}: it has less than half of the games of any earlier import; leave --replace out")
    for old in replaced:
        for query in ("delete_import_matches", "delete_import_replays", "delete_import"):
            con.execute(sql(query), {"run": old.run})
    con.execute(sql("delete_stored_matches"), {"run": run})
    (fresh,) = con.execute(sql("count_import"), {"run": run}).fetchone() or (0,)
    if not fresh:
        raise UsageError(f"{file.name}: all {len(file.matches):,} matches are in {path} already; nothing was changed")
    if earlier == "refuse" and (again := select_rows(con, ImportRow, "repeated_imports", **new)):
        raise UsageError(_would_count_twice(file.name, again))
    imported = ImportRow(run, file.sha256, file.name, fresh, imported_at)
    con.execute(sql("begin_import"), to_columns(imported))
    write_batch(con, "agent", [to_columns(agent) for agent in file.agents])
    if replaced:
        con.execute(sql("delete_idle_imports"))
    for (game_id,) in con.execute(sql("import_game_ids"), {"run": run}).fetchall():
        _refuse_too_many(con, file, game_id)
    return imported, replaced


def delete_import(con: Cursor, path: Path, run: str) -> ImportRow:
    """Takes an import back in the transaction of `con`: its matches, agents that nobody else has met, and old ratings.

    Raises:
        UsageError: there is none of that name.
    """
    rows = {row.run: row for row in select_rows(con, ImportRow, "imports")}
    if run not in rows:
        raise UsageError(f"no import `{run}` in {path}{nearest(run, rows)}; see `league imports list`")
    for (game_id,) in con.execute(sql("import_game_ids"), {"run": run}).fetchall():
        con.execute(sql("delete_boards"), {"game_id": game_id})
    con.execute(sql("delete_import_matches"), {"run": run})
    con.execute(sql("delete_import_replays"), {"run": run})
    con.execute(sql("delete_import"), {"run": run})
    con.execute(sql("delete_idle_imports"))
    return rows[run]


def _refuse_too_many(con: Cursor, file: MatchFile, game_id: str) -> None:
    """Refuses games with which nobody of their game could be rated any more."""
    pairs = con.execute(sql("met_pairs"), {"game_id": game_id}).fetchall()
    names = {name: i for i, name in enumerate(sorted({agent for pair in pairs for agent in pair}))}
    if len(names) > MAX_AGENTS:
        raise UsageError(
            f"{file.name}: with it {len(names):,} agents have games, more than the {MAX_AGENTS:,} that are rated;"
            f" import fewer"
        )
    from league.maths.davidson import check_size  # here, since it loads scipy

    ends = np.array([[names[a], names[b]] for a, b in pairs], np.int64).reshape(-1, 2)
    check_size(len(names), *ends.T)


def _refuse_the_same(con: Cursor, file: MatchFile) -> None:
    same = con.execute(sql("find_import"), {"sha256": file.sha256}).fetchone()
    if same is not None:
        run, count, at = same
        raise UsageError(
            f"{file.name}: its content was imported before, as {run} ({count:,} matches, {at:%Y-%m-%d %H:%M} UTC);"
            f" nothing was changed, and nothing is left to do"
        )


def _free_name(con: Cursor, path: Path, wanted: str | None) -> str:
    taken = {name for (name,) in con.execute(sql("run_names")).fetchall()}
    name = wanted or next(name for n in itertools.count(1) if (name := f"import-{n}") not in taken)
    if name in taken:
        raise UsageError(f"run={name}: that name is taken in {path}; pass another --run, or none")
    return name


def _would_count_twice(file: str, again: Sequence[ImportRow]) -> str:
    named = ", ".join(f"{row.run} ({row.matches:,} games of {row.file})" for row in again)
    return (
        f"{file}: it has most games of an earlier import once more, of {named}; pass --replace to put this file in its"
        f" place, or --as-new if these are other games; nothing was changed"
    )
