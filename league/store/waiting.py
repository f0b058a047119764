"""Rows that wait in memory until they are written, a batch a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from league.acts import act
from league.store.codec import TABLES, Columns, as_arrays, key_of, naive
from league.store.connection import Cursor
from league.store.rows import GateRow, RunStatus, now
from league.store.sql import sql


class Waiting:
    """Rows that are not in the file yet, how far runs are, and what gates came to."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[Any, Columns]] = {table: {} for table in TABLES}
        self._progress: dict[str, Columns] = {}
        self._gates: dict[str, Columns] = {}

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        """What `content` gave.

        Raises:
            KeyError, TypeError, AttributeError: it was something else.
        """
        waiting = cls()
        for table, rows in content["rows"].items():
            for row in rows:
                waiting.add(table, row)
        waiting._progress, waiting._gates = dict(content["runs"]), dict(content["gates"])
        return waiting

    def content(self) -> dict[str, Any]:
        """Everything, in dicts and lists of plain values and moments."""
        rows = {table: list(rows.values()) for table, rows in self._rows.items() if rows}
        return {"rows": rows, "runs": self._progress, "gates": self._gates}

    def __len__(self) -> int:
        return sum(map(len, self._rows.values())) + len(self._progress) + len(self._gates)

    def add(self, table: str, row: Columns) -> None:
        """A row more, which replaces one of its key."""
        rows = self._rows[table]
        rows[key_of(table, row) or len(rows)] = row

    def note(self, run: str, status: RunStatus | None, steps: int | None, update: int | None) -> None:
        """How far a run is; None: as it was noted before."""
        noted = self._progress.setdefault(run, {"status": None, "steps": None, "update": None})
        given = {"status": status, "steps": steps, "update": update}
        noted.update({name: value for name, value in given.items() if value is not None}, updated_at=naive(now()))

    def end_gate(self, gate: GateRow, champion: str | None) -> None:
        """What a gate came to, once: what came first counts.

        champion: the run's when the gate began; where it is another one by now nobody is promoted.
        """
        names = ("run", "games", "llr", "decision", "is_promoted")
        came_to = {name: getattr(gate, name) for name in names}
        self._gates.setdefault(gate.gate, came_to | {"champion": champion, "decided_at": naive(now())})

    @act("write rows")
    def write(self, con: Cursor) -> None:
        """Writes everything; it waits on, until `clear`."""
        for table, rows in self._rows.items():
            write_batch(con, table, list(rows.values()))
        if self._rows["snapshot"]:
            con.execute(sql("name_snapshots"))
        for run, noted in self._progress.items():
            con.execute(sql("update_run"), {"run": run, **noted})
        for gate, came_to in self._gates.items():
            _end_gate(con, gate, came_to)

    def extend(self, later: Waiting) -> None:
        """Takes in what was added to another one since; a row replaces one of its key."""
        for table, rows in later._rows.items():
            for row in rows.values():
                self.add(table, row)
        for run, noted in later._progress.items():
            known = self._progress.setdefault(run, dict(noted))
            known.update({name: value for name, value in noted.items() if value is not None})
        for gate, came_to in later._gates.items():
            self._gates.setdefault(gate, came_to)

    def clear(self) -> None:
        """Nothing waits any more."""
        for rows in self._rows.values():
            rows.clear()
        self._progress.clear()
        self._gates.clear()

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


def _end_gate(con: Cursor, gate: str, came_to: Columns) -> None:
    values = dict(came_to)
    row = con.execute(sql("champion"), {"run": values.pop("run")}).fetchone()
    if (None if row is None else row[0]) != values.pop("champion"):
        values["is_promoted"] = False
    con.execute(sql("end_gate"), {"gate": gate, **values})


def _is_past(table: str, row: Columns, run: str, update: int) -> bool:
    is_evaluation = table in ("match", "replay") and row["kind"] == "evaluation"
    return not is_evaluation and row.get("run") == run and row.get("update", 0) > update
