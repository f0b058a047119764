"""The games of a file, the table `given`, become evaluation rows, but for those that the store has already."""

from __future__ import annotations

from typing import Literal

import numpy as np

from league.errors import UsageError
from league.store.codec import KINDS, encoded, naive, quoted_name
from league.store.rows import ImportRow
from league.store.segments import quoted
from league.store.view import Cursor, View

MAX_AGENTS = 20_000
"""Of one game: a board of so many takes a minute at worst (docs/ratings.md)."""
Earlier = Literal["refuse", "replace", "keep"]
"""What becomes of an earlier import of which a file has at least half of the games once more."""


def leave_out_stored(view: View, con: Cursor, row: ImportRow, earlier: Earlier) -> tuple[int, list[ImportRow]]:
    """Deletes the games of `given` that the store has already.

    con: the view's, within its `reading`. row: the import that the games become.

    Returns:
        How many are left, and the earlier imports in whose place they come.
    """
    new = {"run": row.run, "imported_at": naive(row.imported_at)}
    replaced = view.select_rows(ImportRow, "repeated_imports", **new) if earlier == "replace" else []
    if earlier == "replace" and not replaced:
        raise UsageError(f"{row.file}: it has less than half of the games of any earlier import; leave --replace out")
    view.select("delete_stored_matches", replaced=[old.run for old in replaced], imported_at=new["imported_at"])
    ((fresh,),) = con.execute("SELECT count(*) FROM given").fetchall()
    if not fresh:
        raise UsageError(f"{row.file}: all {row.matches:,} matches are in {view.path} already; nothing was changed")
    if earlier == "refuse" and (again := view.select_rows(ImportRow, "repeated_imports", **new)):
        named = ", ".join(f"{old.run} ({old.matches:,} games of {old.file})" for old in again)
        raise UsageError(
            f"{row.file}: it has most games of an earlier import once more, of {named}; pass --replace to put this file"
            f" in its place, or --as-new if these are other games; nothing was changed"
        )
    return fresh, replaced


def refuse_too_many(view: View, con: Cursor, file: str) -> None:
    """Refuses games with which nobody of their game could be rated any more."""
    from league.maths.davidson import check_size  # here, since it loads scipy

    for (game_id,) in con.execute("SELECT DISTINCT game_id FROM given ORDER BY game_id").fetchall():
        pairs = view.select("met_pairs", game_id=game_id)
        names = {name: i for i, name in enumerate(sorted({agent for pair in pairs for agent in pair}))}
        if len(names) > MAX_AGENTS:
            raise UsageError(
                f"{file}: with it {len(names):,} agents have games, more than the {MAX_AGENTS:,} that are rated;"
                f" import fewer"
            )
        ends = np.array([[names[a], names[b]] for a, b in pairs], np.int64).reshape(-1, 2)
        check_size(len(names), *ends.T)


def matches_query(row: ImportRow) -> str:
    """The games of `given` as the matches of an import, in SQL."""
    said = {
        **{"run": quoted(row.run), "kind": "'evaluation'", "update": "0", "row": "place", "ordinal": "0"},
        **dict.fromkeys(("update_begin", "update_end", "payoff", "course"), "NULL"),
        **dict.fromkeys(("metrics", "rewards"), "'{}'"),
        "finished_at": f"coalesce(played_at, {quoted(str(naive(row.imported_at)))}::TIMESTAMP)",
    }
    columns = ", ".join(f"{said.get(name, name)} AS {quoted_name(name)}" for name in KINDS["match"])
    return f"SELECT {encoded('match')} FROM (SELECT {columns} FROM given)"
