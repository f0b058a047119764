"""Files of matches that become evaluation rows: written all or nothing, and no game twice."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

import numpy as np

from league.errors import UsageError, nearest
from league.maths.davidson import check_size
from league.store.codec import as_arrays, aware, naive, replay_columns, to_columns
from league.store.connection import Cursor, select, select_rows
from league.store.rows import AgentRow, ImportRow, now
from league.store.sql import sql
from league.store.waiting import write_batch
from league.types import MatchResult

Dated = tuple[MatchResult, datetime | None]
"""A match and when it ended, if that is known."""
MAX_AGENTS = 20_000
"""Of one game: a board of so many takes a minute at worst (docs/ratings.md)."""
Earlier = Literal["refuse", "replace", "keep"]
"""What becomes of an earlier import of which a file has at least half of the games once more."""


@dataclass(frozen=True)
class MatchFile:
    """A file of matches that is to be imported."""

    name: str
    sha256: str
    """Of its content."""
    matches: Sequence[Dated]
    """Evaluation matches; the `row` of each is its own."""
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
    replaced = _repeated_imports(con, file.matches) if earlier == "replace" else []
    if earlier == "replace" and not replaced:
        raise UsageError(f"{file.name}: it has less than half of the games of any earlier import; leave --replace out")
    for old in replaced:
        con.execute(sql("delete_import_matches"), {"run": old.run})
        con.execute(sql("delete_import_replays"), {"run": old.run})
        con.execute(sql("delete_import"), {"run": old.run})
    rows = [to_columns(replace(match, run=run), finished_at=at or imported_at) for match, at in file.matches]
    con.register("batch", as_arrays("match", rows))
    stored = {row for (row,) in con.execute(sql("stored_matches")).fetchall()}
    con.unregister("batch")
    fresh = [row for row in rows if row["row"] not in stored]
    if earlier == "refuse" and fresh:
        again = _repeated_imports(con, [pair for pair in file.matches if pair[0].row not in stored])
        if again:
            raise UsageError(_would_count_twice(file.name, again))
    if not fresh:
        raise UsageError(f"{file.name}: all {len(rows):,} matches are in {path} already; nothing was changed")
    imported = ImportRow(run, file.sha256, file.name, len(fresh), imported_at)
    con.execute(sql("begin_import"), to_columns(imported))
    write_batch(con, "match", fresh)
    kept = {match.row: match for match, _ in file.matches if match.replay}
    write_batch(
        con, "replay", [x for row in fresh if row["row"] in kept for x in replay_columns(kept[row["row"]], row)]
    )
    write_batch(con, "agent", [to_columns(agent) for agent in file.agents])
    if replaced:
        con.execute(sql("delete_idle_imports"))
    for game_id in dict.fromkeys(match.game_id for match, _ in file.matches):
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


def _repeated_imports(con: Cursor, matches: Sequence[Dated]) -> list[ImportRow]:
    """The earlier imports of which `matches` have at least half of the games; the oldest first.

    Games are the same by game, seats, winner and sampling, and by their times where both sides know these. In files
    without times that may be chance: which is why somebody else decides what to do.
    """
    Key = tuple[str, str, str, int, str]
    given: dict[Key, Counter[datetime | None]] = defaultdict(Counter)
    for match, at in matches:
        key = match.game_id, *match.agents, match.winner, match.sampling
        given[key][None if at is None else naive(at)] += 1
    pairs = sorted({key[:3] for key in given})
    batch = zip(("game_id", "seat0_agent", "seat1_agent"), zip(*pairs, strict=True), strict=True)
    con.register("batch", {name: np.array(values, dtype=object) for name, values in batch})
    columns, rows = select(con, "import_games")
    con.unregister("batch")
    found: dict[ImportRow, dict[Key, Counter[datetime | None]]] = {}
    for row in rows:
        game = dict(zip(columns, row, strict=True))
        earlier = ImportRow(game["run"], "", game["file"], game["matches"], aware(game["imported_at"]))
        key = game["game_id"], game["seat0_agent"], game["seat1_agent"], game["winner"], game["sampling"]
        found.setdefault(earlier, defaultdict(Counter))[key][game["played_at"]] += game["games"]
    return [row for row, old in found.items() if 2 * sum(_shared(old[k], given[k]) for k in old) >= row.matches]


def _shared(a: Counter[datetime | None], b: Counter[datetime | None]) -> int:
    """How many games of equal seats and outcome can be the same, by their times; None: a time that is not known."""
    untimed_a, untimed_b = a[None], b[None]
    timed_a, timed_b = a.total() - untimed_a, b.total() - untimed_b
    same = (a & b).total() - min(untimed_a, untimed_b)
    both = min(untimed_a, untimed_b)
    return same + both + min(untimed_a - both, timed_b - same) + min(untimed_b - both, timed_a - same)


def _would_count_twice(file: str, again: Sequence[ImportRow]) -> str:
    named = ", ".join(f"{row.run} ({row.matches:,} games of {row.file})" for row in again)
    return (
        f"{file}: it has most games of an earlier import once more, of {named}; pass --replace to put this file in its"
        f" place, or --as-new if these are other games; nothing was changed"
    )
