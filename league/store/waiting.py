"""Rows that wait in memory until they are written, a batch a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from league.acts import act
from league.store.codec import TABLES, Columns, as_arrays, key_of, naive
from league.store.connection import Cursor
from league.store.rows import RunStatus, now
from league.store.sql import sql


class Waiting:
    """Rows that are not in the file yet, and how far runs are."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[Any, Columns]] = {table: {} for table in TABLES}
        self._progress: dict[str, Columns] = {}

    def __len__(self) -> int:
        return sum(map(len, self._rows.values())) + len(self._progress)

    def add(self, table: str, row: Columns) -> None:
        """A row more, which replaces one of its key."""
        rows = self._rows[table]
        rows[key_of(table, row) or len(rows)] = row

    def note(self, run: str, status: RunStatus | None, steps: int | None, update: int | None) -> None:
        """How far a run is; None: as it was noted before."""
        noted = self._progress.setdefault(run, {"status": None, "steps": None, "update": None})
        given = {"status": status, "steps": steps, "update": update}
        noted.update({name: value for name, value in given.items() if value is not None}, updated_at=naive(now()))

    @act("write rows")
    def write(self, con: Cursor) -> None:
        """Writes everything; it waits on, until `clear`."""
        for table, rows in self._rows.items():
            write_batch(con, table, list(rows.values()))
        if self._rows["snapshot"]:
            con.execute(sql("name_snapshots"))
        for run, noted in self._progress.items():
            con.execute(sql("update_run"), {"run": run, **noted})

    def clear(self) -> None:
        """Nothing waits any more."""
        for rows in self._rows.values():
            rows.clear()
        self._progress.clear()

    def forget_after(self, run: str, update: int) -> None:
        """Drops what a run's training added past an update; evaluation stays, to be replaced."""
        for table, rows in self._rows.items():
            kept = [row for row in rows.values() if not _is_past(table, row, run, update)]
            rows.clear()
            for row in kept:
                self.add(table, row)


def write_batch(con: Cursor, table: str, rows: Sequence[Columns]) -> None:
    """Writes rows of one table at once; each replaces one of its key."""
    if rows:
        con.register("batch", as_arrays(table, rows))
        con.execute(sql(TABLES[table].write))
        con.unregister("batch")


def _is_past(table: str, row: Columns, run: str, update: int) -> bool:
    is_evaluation = table == "match" and row["kind"] == "evaluation"
    return not is_evaluation and row.get("run") == run and row.get("update", 0) > update
