"""The match store: one DuckDB file with every run, agent, snapshot, match, rating, metric and event.

DuckDB lets one process hold the file, so nobody keeps it open: a write opens it, makes one transaction and closes it,
a reader opens it read-only, and both try again for a while when somebody else is there.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import re
import secrets
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np

from league.errors import StoreError, UsageError, nearest
from league.maths.ratings import PairCounts
from league.store.rows import (
    COLUMNS,
    WRITES,
    AgentRow,
    EventRow,
    GameRow,
    GateRow,
    ImportRow,
    LearnerRow,
    RatingRow,
    RewardTerm,
    RunRow,
    RunStatus,
    Sampling,
    SnapshotRow,
    TrainingRecord,
    as_arrays,
    aware,
    event_from_values,
    gate_from_values,
    gate_values,
    match_from_values,
    match_values,
    naive,
    now,
    rating_values,
    run_from_values,
    run_values,
    snapshot_from_values,
    snapshot_values,
)
from league.store.sql import Migration, migrations, sql
from league.types import MatchResult

__all__ = [
    "AgentRow",
    "EventRow",
    "GameRow",
    "GateRow",
    "ImportRow",
    "LearnerRow",
    "RatingRow",
    "RewardTerm",
    "RunRow",
    "SnapshotRow",
    "Store",
    "StoreBusy",
    "TrainingRecord",
]

LOCK_SECONDS = 10.0
"""How long a read or an unavoidable write waits for another process to let go of the file."""
PATIENCE_SECONDS = 1.0
"""How long a write that can be put off waits."""
FLUSH_SECONDS = 5.0
"""The least time between two writes that can be put off."""
MAX_RETRY_SECONDS = 60.0
"""The most that is waited before the next try where such writes fail again and again; each failure is warned about."""
QUERY_SECONDS = 30.0
MAX_QUERY_ROWS = 1_000_000
LEAST_LISTED = 10
"""Decided matches of an imported file that one seat has to have won, all of them, to be a list of winners first."""
MAX_QUERY_CHARACTERS = 100_000
"""DuckDB's parser cannot be interrupted, and takes minutes for megabytes of SQL."""
MAX_QUERY_BYTES = 2**28
"""Of a result's rows as text; the engine's own memory limit does not count what Python holds."""
_ROWS_AT_ONCE = 256
DELETES_AFTER = (
    "delete_metrics_after",
    "delete_events_after",
    "delete_ratings_after",
    "delete_agents_after",
    "delete_snapshots_after",
)
"""Of a run, past an update, beside its matches; agents go while their snapshots tell whose they are."""

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": "1GB",
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "temp_directory": "",  # DuckDB refuses it before enable_external_access
}
_BUGS = (duckdb.ProgrammingError, duckdb.IntegrityError, duckdb.DataError)
_BROKEN_LOG_SIGNS = ("Failure while replaying WAL", "This WAL was created for")
_BUSY_SIGNS = ("Could not set lock", "used by another process", "different configuration")
_log = logging.getLogger(__name__)
_process_lock = threading.RLock()
"""Held while this process has a store open: a file can be open in one process either to read or to write."""


class StoreBusy(StoreError):
    """Another process kept the store for longer than one waits."""


class Store:
    """A league store. Make one with `Store.create` or `Store.open`.

    What `add_*` and `update_run` are given waits in memory until `flush`; readers see what has been written. Not for
    use by several threads at once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows: dict[str, dict[Any, tuple[Any, ...]]] = {table: {} for table in COLUMNS}
        self._progress: dict[str, dict[str, Any]] = {}
        self._status: dict[str, RunStatus] = {}
        self._next_flush = 0.0
        self._retry_seconds = FLUSH_SECONDS
        self._reader: duckdb.DuckDBPyConnection | None = None

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> Store:
        """The store at `path`, made if it is not there, and brought up to the newest schema.

        Raises:
            StoreError: what is there is not a league store, is damaged, or nothing can be written there.
        """
        store = cls(Path(path))
        if not os.path.lexists(store.path):
            _make(store.path)
        store._bring_up_to_date()
        return store

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Store:
        """The store at `path`, which must exist; brought up to the newest schema.

        Raises:
            StoreError: it is missing, not a league store, or damaged.
        """
        store = cls(Path(path))
        if not store.path.exists():
            raise StoreError(_missing(store.path))
        store._bring_up_to_date()
        return store

    # Writing

    @property
    def num_waiting(self) -> int:
        """Rows in memory that are not in the file yet."""
        return sum(map(len, self._rows.values())) + len(self._progress)

    def add_matches(self, matches: Iterable[MatchResult]) -> None:
        """Buffers finished matches; one replaces an earlier one of the same (run, kind, update, row, ordinal).

        Raises:
            ValueError: a match holds a value that cannot be.
        """
        finished_at = now()
        for match in matches:
            values = match_values(match, finished_at)
            self._rows["match"][values[:5]] = values

    def add_metrics(
        self,
        run: str,
        update: int,
        steps: int,
        metrics: Mapping[str, float],
        of_agents: Mapping[tuple[str, str], float] | None = None,
    ) -> None:
        """Buffers measurements of one update, of the run by name, and of single agents by (name, agent id).

        One replaces an earlier one of its (run, update, name, agent id). NaN is NULL.
        """
        named = {(name, ""): value for name, value in metrics.items()} | dict(of_agents or {})
        for (name, agent_id), value in named.items():
            self._rows["metric"][run, update, name, agent_id] = (run, update, steps, name, agent_id, float(value))

    def add_event(self, run: str, update: int, kind: str, message: str) -> None:
        """Buffers something worth remembering: a skipped update, a restart, a stop."""
        events = self._rows["event"]
        events[len(events)] = (run, update, kind, message, naive(now()))

    def add_game(self, game: GameRow) -> None:
        """Buffers what boards need to know of a game; it replaces what was known of its id."""
        self._rows["game"][game.game_id] = (game.game_id, game.name, game.anchor, game.activity)

    def add_agent(self, agent: AgentRow) -> None:
        """Buffers an agent; it replaces an earlier one of the same (game_id, agent_id)."""
        values = (agent.game_id, agent.agent_id, agent.kind, agent.name)
        self._rows["agent"][values[:2]] = values

    def add_snapshot(self, snapshot: SnapshotRow) -> None:
        """Buffers a snapshot, which becomes an agent named RUN@STEP; it replaces an earlier one of its run and step."""
        self._rows["snapshot"][snapshot.run, snapshot.step] = snapshot_values(snapshot)

    def add_ratings(self, ratings: Iterable[RatingRow]) -> None:
        """Buffers ratings as they stood; one replaces an earlier one of its run, update, game, board and agent."""
        rated_at = now()
        for r in ratings:
            key = (r.run, r.update, r.game_id, r.sampling, r.prior, r.system, r.agent_id)
            self._rows["rating"][key] = rating_values(r, rated_at)

    def replace_board(self, game_id: str, sampling: Sampling, prior: float, ratings: Sequence[RatingRow]) -> bool:
        """Writes a board's ratings in the place of those that it had, if the store can be written at this moment.

        Returns:
            Whether it could.
        """
        board = {"game_id": game_id, "sampling": sampling, "prior": prior}
        rated_at = now()
        try:
            with self._transaction(0.0) as con:
                con.execute(sql("delete_board"), board)
                if ratings:
                    con.register("batch", as_arrays("rating", [rating_values(row, rated_at) for row in ratings]))
                    con.execute(sql("write_rating"))
                    con.unregister("batch")
        except StoreError:
            return False
        return True

    def update_run(
        self, run: str, *, status: RunStatus | None = None, steps: int | None = None, update: int | None = None
    ) -> None:
        """Notes how far a run is. A change of status is written at once, with all that waits; the rest can wait.

        Raises:
            StoreBusy: the status changed, and the store was busy for 10 seconds.
            StoreError: the status changed, and it could not be written.
        """
        progress = self._progress.setdefault(run, {"status": None, "steps": None, "update": None})
        given = {"status": status, "steps": steps, "update": update}
        progress.update({name: value for name, value in given.items() if value is not None}, updated_at=naive(now()))
        is_changed = status is not None and status != self._status.get(run)
        self.flush(force=is_changed)
        if is_changed and status is not None:
            self._status[run] = status

    def begin_run(self, run: RunRow) -> None:
        """Writes a new run at once.

        Raises:
            UsageError: the name is taken.
            StoreError: the store cannot be written.
        """
        with self._transaction(LOCK_SECONDS) as con:
            is_league = con.execute(sql("learners"), {"league": run.run}).fetchone() is not None
            is_new = not is_league and con.execute(sql("begin_run"), run_values(run)).fetchone() is not None
        if not is_new:
            raise UsageError(
                f"run `{run.run}` is already in {self.path}; carry it on with `league resume`, or pass another --run"
            )
        self._status[run.run] = run.status

    def begin_league(self, runs: Sequence[RunRow], learners: Sequence[LearnerRow]) -> bool:
        """Writes all runs of a new league at once, all or nothing.

        Returns:
            Whether it was new; False: its name or a run's is taken, and nothing was written.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._transaction(LOCK_SECONDS) as con:
            taken = {name for (name,) in con.execute(sql("run_names")).fetchall()}
            if taken & {learners[0].league, *(row.run for row in runs)}:
                return False
            for run in runs:
                con.execute(sql("begin_run"), run_values(run))
            for learner in learners:
                con.execute(sql("begin_learner"), asdict(learner))
        return True

    def begin_gate(self, gate: GateRow, alpha_of: Callable[[int], float]) -> GateRow:
        """Writes a gate that begins, at once, so that one which is broken off counts as an attempt, too.

        alpha_of: the error that the attempt of this number, counted from 1, may make.

        Returns:
            The gate with its attempt and alpha.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._transaction(LOCK_SECONDS) as con:
            values = gate_values(gate)
            asked = {name: values[name] for name in ("run", "game_id", "challenger", "opponent")}
            row = con.execute(sql("gate_attempts"), asked).fetchone()
            attempt = 1 + (row[0] if row else 0)
            gate = replace(gate, attempt=attempt, alpha=alpha_of(attempt))
            con.execute(sql("begin_gate"), gate_values(gate))
        return gate

    def end_gate(self, gate: GateRow, champion: str | None) -> GateRow:
        """Writes what a gate came to, at once, and all that waits.

        champion: the run's when the gate began; where it is another one by now nobody is promoted.

        Returns:
            The gate as it was written.

        Raises:
            StoreError: the store cannot be written.
        """
        self.flush(force=True)
        with self._transaction(LOCK_SECONDS) as con:
            row = con.execute(sql("champion"), {"run": gate.run}).fetchone()
            if (None if row is None else row[0]) != champion:
                gate = replace(gate, is_promoted=False)
            names = ("gate", "games", "llr", "decision", "is_promoted")
            con.execute(sql("end_gate"), {name: getattr(gate, name) for name in names} | {"decided_at": naive(now())})
        return gate

    def add_import(
        self,
        wanted: str | None,
        sha256: str,
        file: str,
        matches: Sequence[tuple[MatchResult, datetime | None]],
        agents: Iterable[AgentRow],
        earlier: Literal["refuse", "replace", "keep"] = "refuse",
    ) -> tuple[ImportRow, list[ImportRow]]:
        """Writes a file's matches and the agents that they bring at once, all or nothing, but for those stored already.

        wanted: the `run` that they get; the next free `import-N` if None. sha256, file: the content's and the file's
        name. matches: evaluation matches and when each ended, if that is known; the `row` of each is its own. earlier:
        what becomes of an earlier import of which this one has at least half of the games once more.

        Returns:
            The import as it was written, whose `matches` may be fewer than were given; and those that it replaced.

        Raises:
            UsageError: the name is taken, that content was imported before, all matches are stored already, most of an
                earlier import would count twice, or there is none to replace.
            StoreError: the store cannot be written.
        """
        imported_at = now()
        with self._transaction(LOCK_SECONDS) as con:
            same = con.execute(sql("find_import"), {"sha256": sha256}).fetchone()
            if same is not None:
                run, count, at = same
                raise UsageError(
                    f"{file}: its content was imported before, as {run} ({count:,} matches, {at:%Y-%m-%d %H:%M} UTC);"
                    f" nothing was changed, and nothing is left to do"
                )
            taken = {name for (name,) in con.execute(sql("run_names")).fetchall()}
            name = wanted or next(name for n in itertools.count(1) if (name := f"import-{n}") not in taken)
            if name in taken:
                raise UsageError(f"run={name}: that name is taken in {self.path}; pass another --run, or none")
            replaced = _repeated_imports(con, matches) if earlier == "replace" else []
            if earlier == "replace" and not replaced:
                raise UsageError(
                    f"{file}: it has less than half of the games of any earlier import; leave --replace out"
                )
            for old in replaced:
                for statement in ("delete_import_matches", "delete_import"):
                    con.execute(sql(statement), {"run": old.run})
            values = [match_values(replace(match, run=name), at or imported_at) for match, at in matches]
            con.register("batch", as_arrays("match", values))
            stored = {row for (row,) in con.execute(sql("stored_matches")).fetchall()}
            con.unregister("batch")
            place = list(COLUMNS["match"]).index("row")
            fresh = [row for row in values if row[place] not in stored]
            if earlier == "refuse" and fresh:
                again = _repeated_imports(con, [pair for pair in matches if pair[0].row not in stored])
                if again:
                    raise UsageError(_would_count_twice(file, again))
            if not fresh:
                raise UsageError(f"{file}: all {len(values):,} matches are in {self.path} already; nothing was changed")
            imported = ImportRow(name, sha256, file, len(fresh), imported_at)
            con.execute(
                sql("begin_import"),
                {
                    "run": name,
                    "sha256": sha256,
                    "file": file,
                    "matches": len(fresh),
                    "imported_at": naive(imported.imported_at),
                },
            )
            new = [(agent.game_id, agent.agent_id, agent.kind, agent.name) for agent in agents]
            for table, rows in (("match", fresh), ("agent", new)):
                if rows:
                    con.register("batch", as_arrays(table, rows))
                    con.execute(sql(WRITES[table]))
                    con.unregister("batch")
            if replaced:
                con.execute(sql("delete_idle_imports"))
        return imported, replaced

    def extend_run(self, run: str, *, stage: str, config: str, fingerprint: str, device: str | None = None) -> None:
        """Sets a run going again at once, for `stage`, with `config` (JSON), `fingerprint` and `device` from now on.

        Raises:
            StoreError: the store cannot be written.
        """
        values = {
            "run": run,
            "stage": stage,
            "config": config,
            "fingerprint": fingerprint,
            "device": device,
            "updated_at": naive(now()),
        }
        with self._transaction(LOCK_SECONDS) as con:
            con.execute(sql("extend_run"), values)
        self._status[run] = "running"

    def mark_pruned(self, run: str, steps: Sequence[int]) -> None:
        """Writes at once that the files of a run's snapshots at `steps` are, or are about to be, deleted.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._transaction(LOCK_SECONDS) as con:
            values = {"run": run, "steps": list(steps), "pruned_at": naive(now())}
            con.execute(sql("prune_snapshots"), values)

    def flush(self, force: bool = False, *, is_wanted: bool = False) -> bool:
        """Writes everything that waits, in one transaction.

        Without `force` it does nothing within 5 seconds of the last time, unless it `is_wanted`, and a store that
        cannot be written is only warned about: the rows stay in memory for the next time, which comes later with every
        failure. With `force` it writes now or raises; the rows stay in memory all the same.

        Returns:
            Whether nothing waits any more.

        Raises:
            StoreBusy: with `force`, another process kept the store for 10 seconds.
            StoreError: with `force`, the store cannot be written.
        """
        if not self.num_waiting:
            return True
        if not (force or is_wanted) and time.monotonic() < self._next_flush:
            return False
        try:
            with self._transaction(LOCK_SECONDS if force else PATIENCE_SECONDS) as con:
                self._write(con)
        except StoreError as error:
            if force:
                raise
            self._next_flush = time.monotonic() + self._retry_seconds
            _log.warning(
                "%d rows wait in memory, tried again in %g s: %s", self.num_waiting, self._retry_seconds, error
            )
            self._retry_seconds = min(2 * self._retry_seconds, MAX_RETRY_SECONDS)
            return False
        self._next_flush, self._retry_seconds = time.monotonic() + FLUSH_SECONDS, FLUSH_SECONDS
        for rows in self._rows.values():
            rows.clear()
        self._progress.clear()
        return True

    def checkpoint(self, run: str, update: int) -> dict[str, list[int]]:
        """Writes everything that waits, and DuckDB's log into the file itself, so that nothing is left in the log.

        Returns:
            `row_counts` of the run.

        Raises:
            StoreError: as `flush` with `force`.
        """
        self.flush(force=True)
        with self._session(read_only=False, wait=LOCK_SECONDS) as con:
            con.execute("CHECKPOINT")
            return _row_counts(con, run, update)

    def row_counts(self, run: str, update: int) -> dict[str, list[int]]:
        """Kind of match -> how many a run has (of training, up to `update`), and the last update among them."""
        with self._read() as con:
            return _row_counts(con, run, update)

    def delete_after(self, run: str, update: int) -> int:
        """Forgets what a run's training wrote past `update`, in the file and in memory, in one transaction.

        Matches of kind training, metrics, events, ratings and snapshots go, and the agents that those snapshots were.
        Evaluation matches stay: they are replaced by their key when they are played again.

        Returns:
            How many matches went from the file.

        Raises:
            StoreError: the store cannot be written.
        """
        given = {"run": run, "update": update}
        with self._transaction(LOCK_SECONDS) as con:
            (num_matches,) = con.execute(sql("delete_matches_after"), given).fetchone() or (0,)
            for name in DELETES_AFTER:
                con.execute(sql(name), given)
        for table, rows in self._rows.items():
            if "update" in COLUMNS[table]:
                place = list(COLUMNS[table]).index("update")
                self._rows[table] = {
                    key: values
                    for key, values in rows.items()
                    if values[0] != run or values[place] <= update or (table == "match" and values[1] != "training")
                }
        self._rows["event"] = dict(enumerate(self._rows["event"].values()))
        return int(num_matches)

    def _write(self, con: duckdb.DuckDBPyConnection) -> None:
        for table, rows in self._rows.items():
            if rows:
                con.register("batch", as_arrays(table, list(rows.values())))
                con.execute(sql(WRITES[table]))
                con.unregister("batch")
        if self._rows["snapshot"]:
            con.execute(sql("name_snapshots"))
        for run, progress in self._progress.items():
            con.execute(sql("update_run"), {"run": run, **progress})

    # Reading

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Within it all readers share one opening of the file, and so see the same moment. Keep it short.

        Raises:
            StoreError: the store cannot be read.
        """
        with self._read():
            yield

    def runs(self) -> list[RunRow]:
        """All runs, oldest first."""
        with self._read() as con:
            rows = con.execute(sql("runs")).fetchall()
        return [run_from_values(row) for row in rows]

    def find_run(self, run: str) -> RunRow:
        """The run of that name.

        Raises:
            UsageError: there is none.
        """
        runs = {row.run: row for row in self.runs()}
        if run not in runs:
            raise UsageError(f"no run `{run}` in {self.path}{nearest(run, runs)}")
        return runs[run]

    def learners(self, league: str | None = None) -> list[LearnerRow]:
        """The learners of one league or of all, each league's in its file's order."""
        with self._read() as con:
            return [LearnerRow(*row) for row in con.execute(sql("learners"), {"league": league}).fetchall()]

    def snapshots(self, run: str) -> list[SnapshotRow]:
        """A run's snapshots, oldest first."""
        with self._read() as con:
            rows = con.execute(sql("snapshots"), {"run": run}).fetchall()
        return [snapshot_from_values(row) for row in rows]

    def find_snapshot(self, run: str, step: int) -> SnapshotRow:
        """The snapshot RUN@STEP.

        Raises:
            UsageError: there is none.
        """
        snapshots = {str(row.step): row for row in self.snapshots(run)}
        if str(step) not in snapshots:
            raise UsageError(f"no snapshot `{run}@{step}` in {self.path}{nearest(str(step), snapshots)}")
        return snapshots[str(step)]

    def agents(self, game_id: str) -> list[AgentRow]:
        """The agents known in one game."""
        with self._read() as con:
            rows = con.execute(sql("agents"), {"game_id": game_id}).fetchall()
        return [AgentRow(agent_id, kind, name, game) for game, agent_id, kind, name in rows]

    def agent_games(self, game_id: str) -> dict[str, int]:
        """Agent id -> the matches of either kind that it sat in, of one game."""
        with self._read() as con:
            return dict(con.execute(sql("agent_games"), {"game_id": game_id}).fetchall())

    def game(self, game_id: str) -> GameRow:
        """What is known of a game; only its id where no run, evaluation or tournament of it began here."""
        with self._read() as con:
            row = con.execute(sql("game"), {"game_id": game_id}).fetchone()
        return GameRow(game_id) if row is None else GameRow(*row)

    def games(self) -> dict[str, str]:
        """Game id -> the game's name (empty where no run tells), the latest run's first."""
        with self._read() as con:
            return dict(con.execute(sql("games")).fetchall())

    def matches(self, run: str, kind: Literal["training", "evaluation"]) -> list[MatchResult]:
        """A run's matches of one kind, in key order."""
        with self._read() as con:
            rows = con.execute(sql("matches"), {"run": run, "kind": kind}).fetchall()
        return [match_from_values(row) for row in rows]

    def games_played(
        self, kind: Literal["training", "evaluation"], run: str | None = None, game_id: str | None = None
    ) -> list[tuple[MatchResult, datetime]]:
        """Matches of one kind without their metrics and rewards, and when each ended, oldest first.

        Of one run or game, or of all. A game that was played before comes once, as `pair_counts` counts it.
        """
        with self._read() as con:
            rows = con.execute(sql("games_played"), {"kind": kind, "run": run, "game_id": game_id}).fetchall()
        return [(match_from_values(row[:-1]), aware(row[-1])) for row in rows]

    def pair_counts(
        self,
        game_id: str,
        kind: Literal["training", "evaluation"] = "evaluation",
        run: str | None = None,
        sampling: Sampling = "sample",
    ) -> PairCounts:
        """Games of every ordered pair of agents in one game, of all runs or one, whose nets chose by `sampling`.

        Games between two bots count for either sampling. A game that was played before is counted once: without
        sampling, one of the same seats and seed; with it, one that is also at the same place of an evaluation and took
        the same course, so that an evaluation repeated with its seed adds nothing. An imported file in which one seat
        won all of at least `LEAST_LISTED` decided matches names winners first: its pairs are apart, and `unseated`.
        """
        values = {"game_id": game_id, "kind": kind, "run": run, "sampling": sampling, "least": LEAST_LISTED}
        with self._read() as con:
            found = con.execute(sql("pair_counts"), values).fetchnumpy()
            seated = con.execute(sql("seated")).fetchnumpy()
        names, by_hash = seated["agent_id"], np.argsort(seated["number"])
        first, second = (
            by_hash[np.searchsorted(seated["number"], found[seat], sorter=by_hash)] for seat in ("first", "second")
        )
        unseated = found["is_unseated"].astype(bool)
        order = np.lexsort((unseated, second, first))
        columns = (found[name][order].astype(np.int64) for name in ("wins", "draws", "losses"))
        seat0, seat1 = (tuple(names[seat[order]].tolist()) for seat in (first, second))
        return PairCounts(seat0, seat1, *columns, unseated=unseated[order])

    def meetings(self, game_id: str) -> dict[tuple[str, str], int]:
        """Evaluation rows of one game between each two agents (the lesser id first), repeated games included."""
        with self._read() as con:
            return {(a, b): games for a, b, games in con.execute(sql("meetings"), {"game_id": game_id}).fetchall()}

    def samplings(self, game_id: str) -> dict[str, int]:
        """Evaluation rows of one game in which a net played, by how it chose."""
        with self._read() as con:
            return dict(con.execute(sql("samplings"), {"game_id": game_id}).fetchall())

    def lineages(self, game_id: str) -> list[list[str]]:
        """Snapshots (agent ids) of one game, each trained from the one before, oldest first.

        There is one lineage for each run, and another for each time that one went back to earlier weights.
        """
        lineages: list[list[str]] = []
        last_run = None
        with self._read() as con:
            for run, agent_id, parent in con.execute(sql("lineages"), {"game_id": game_id}).fetchall():
                if run != last_run:
                    lineages.append([])
                elif parent not in (None, lineages[-1][-1]):
                    lineages.append([parent])
                lineages[-1].append(agent_id)
                last_run = run
        return lineages

    def champion(self, run: str) -> str | None:
        """The agent id of the run's champion, which a gate promoted; None where there is none."""
        with self._read() as con:
            row = con.execute(sql("champion"), {"run": run}).fetchone()
        return None if row is None else row[0]

    def gates(self, run: str | None = None) -> list[GateRow]:
        """All gates, or those at which the title of the run's champion was at stake, oldest first."""
        with self._read() as con:
            rows = con.execute(sql("gates"), {"run": run}).fetchall()
        return [gate_from_values(row) for row in rows]

    def events(self, run: str | None = None) -> list[EventRow]:
        """What is worth remembering of one run, or of all, oldest first."""
        with self._read() as con:
            rows = con.execute(sql("events"), {"run": run}).fetchall()
        return [event_from_values(row) for row in rows]

    def payoff(self, game_id: str, run: str | None = None) -> list[tuple[str, str, int, int, int]]:
        """The cross table of a game's evaluation matches: agent, opponent, and the agent's wins, draws and losses.

        Of games in which nets sampled, or bots alone played; one that was played before counts once.

        Every pair that met stands in it both ways round. With `run`, only that run's snapshots and whoever they met.
        """
        with self._read() as con:
            return con.execute(sql("payoff"), {"game_id": game_id, "run": run}).fetchall()

    def board_ratings(self, game_id: str, sampling: Sampling, prior: float) -> list[RatingRow]:
        """The Bradley-Terry ratings that a board wrote last, by agent."""
        with self._read() as con:
            values = {"game_id": game_id, "sampling": sampling, "prior": prior}
            return [RatingRow(*row) for row in con.execute(sql("board_ratings"), values).fetchall()]

    def training_games(self, run: str) -> list[tuple[str, float]]:
        """A run's training games in key order: the opponent, and the learner's score (1, 0.5 or 0)."""
        with self._read() as con:
            return con.execute(sql("training_games"), {"run": run}).fetchall()

    def training_records(self, run: str) -> list[TrainingRecord]:
        """A run's training games, won, drawn and lost by the learner, against each opponent."""
        with self._read() as con:
            rows = con.execute(sql("training_records"), {"run": run}).fetchall()
        return [TrainingRecord(*row) for row in rows]

    def reward_terms(self, run: str, last: int | None = None) -> list[RewardTerm]:
        """What each reward term brought in a run's training matches, the one that weighs most for the learner first.

        last: only the newest matches, so many; all if not given.

        Raises:
            UsageError: `last` is not positive.
        """
        if last is not None and last < 1:
            raise UsageError(f"last={last}: a number of matches, so at least 1; pass another --last, or none for all")
        with self._read() as con:
            rows = con.execute(sql("reward_terms"), {"run": run, "last": last}).fetchall()
        return [RewardTerm(*row) for row in rows]

    def query(
        self, statement: str, limit: int | None = None, *, seconds: float = QUERY_SECONDS
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Runs one SELECT or EXPLAIN that somebody typed, and can change or reach nothing but this store's rows.

        limit: the most rows that are wanted; without it a result of more than 1,000,000 rows is refused.

        Returns:
            The columns' names and the rows.

        Raises:
            UsageError: it is not one read, not SQL, or it or its result is too large.
            StoreError: it took longer than `seconds`, or the store cannot be read.
        """
        if len(statement) > MAX_QUERY_CHARACTERS:
            raise UsageError(
                f"the query has {len(statement):,} characters, more than {MAX_QUERY_CHARACTERS:,}; ask in several"
            )
        with self._read() as con:
            timer = threading.Timer(seconds, con.interrupt)
            timer.daemon = True
            try:
                _refuse_all_but_a_read(con, statement)
                timer.start()
                result = con.execute(statement)
                columns = [column[0] for column in result.description or ()]
                rows = _fetch(result, MAX_QUERY_ROWS + 1 if limit is None else limit)
            except duckdb.InterruptException:
                raise StoreError(f"the query took longer than {seconds:g} s and was stopped; ask for less") from None
            except duckdb.Error as error:
                if isinstance(error, duckdb.IOException) or type(error) is duckdb.Error:
                    raise  # the file, not the statement
                raise UsageError(f"the query was refused: {_first_line(error)}") from None
            finally:
                timer.cancel()
        if len(rows) > MAX_QUERY_ROWS:
            raise UsageError(f"the query's result has more than {MAX_QUERY_ROWS:,} rows; add LIMIT")
        return columns, rows

    # Opening and closing

    def _bring_up_to_date(self) -> None:
        wanted = migrations()
        with self._session(read_only=True, wait=LOCK_SECONDS) as con:
            number = _schema_number(con, self.path)
            used = con.execute(sql("used_bytes")).fetchone()
            size = self.path.stat().st_size
        if used is not None and size < used[0]:
            raise StoreError(
                f"store {self.path} is cut off ({size:,} of {used[0]:,} bytes); restore a copy, or pass another --store"
            )
        if number != wanted[-1].number:
            with self._session(read_only=False, wait=LOCK_SECONDS) as con:
                _migrate(con, wanted, self.path)

    @contextlib.contextmanager
    def _read(self) -> Iterator[duckdb.DuckDBPyConnection]:
        if self._reader is not None:
            yield self._reader
            return
        with self._session(read_only=True, wait=LOCK_SECONDS) as con:
            self._reader = con
            try:
                yield con
            finally:
                self._reader = None

    @contextlib.contextmanager
    def _transaction(self, wait: float) -> Iterator[duckdb.DuckDBPyConnection]:
        with self._session(read_only=False, wait=wait) as con:
            con.begin()
            yield con
            con.commit()

    @contextlib.contextmanager
    def _session(self, *, read_only: bool, wait: float) -> Iterator[duckdb.DuckDBPyConnection]:
        deadline = time.monotonic() + wait
        if not _process_lock.acquire(timeout=wait):
            raise StoreBusy(f"store {self.path} is in use by another thread; wait for it and try again")
        try:
            con = _wait_to_connect(self.path, read_only, deadline, wait)
            try:
                yield con
            except _BUGS:
                raise
            except duckdb.Error as error:
                raise StoreError(_damage(self.path, error)) from error
            finally:
                con.close()
        finally:
            _process_lock.release()


def _connect(path: Path, read_only: bool = False) -> duckdb.DuckDBPyConnection:
    """A connection whose settings nobody can change; a statement that takes long shows no progress on stdout."""
    con = duckdb.connect(path, read_only=read_only, config=_CONFIG)
    con.execute("SET enable_progress_bar = false; SET lock_configuration = true")
    return con


def _make(path: Path) -> None:
    """Builds a store beside `path` and moves it there, so that whatever lies at `path` is always whole."""
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _process_lock, contextlib.closing(_connect(draft)) as con:
            _migrate(con, migrations(), draft, number=0)
        try:
            os.link(draft, path)
        except FileExistsError:
            pass  # another process was first, and its store is whole too
        except OSError:
            if not path.exists():  # a file system without hard links
                draft.rename(path)
    except (OSError, duckdb.IOException) as error:
        raise StoreError(f"no store can be made at {path}: {_first_line(error)}; pass another --store") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _migrate(
    con: duckdb.DuckDBPyConnection, wanted: Sequence[Migration], path: Path, number: int | None = None
) -> None:
    """Applies the migrations that are missing, each in one transaction with its record."""
    done = _schema_number(con, path) if number is None else number
    newest = wanted[-1].number
    if done > newest:
        raise StoreError(
            f"store {path} has schema {done}, this league knows {newest}; install a newer one, or pass --store"
        )
    for migration in wanted:
        if migration.number > done:
            con.begin()
            con.execute(migration.text)
            record = {"number": migration.number, "name": migration.name, "applied_at": naive(now())}
            con.execute(sql("record_migration"), record)
            con.commit()
            con.execute("CHECKPOINT")


def _schema_number(con: duckdb.DuckDBPyConnection, path: Path) -> int:
    try:
        row = con.execute(sql("schema_number")).fetchone()
    except (duckdb.CatalogException, duckdb.BinderException):
        row = None
    if row is None or not isinstance(row[0], int):
        raise StoreError(f"{path} is a DuckDB file but not a league store; pass another --store")
    return row[0]


def _row_counts(con: duckdb.DuckDBPyConnection, run: str, update: int) -> dict[str, list[int]]:
    rows = con.execute(sql("row_counts"), {"run": run, "update": update}).fetchall()
    return {kind: counts for kind, *counts in rows}


def _repeated_imports(
    con: duckdb.DuckDBPyConnection, matches: Sequence[tuple[MatchResult, datetime | None]]
) -> list[ImportRow]:
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
    columns = zip(("game_id", "seat0_agent", "seat1_agent"), zip(*pairs, strict=True), strict=True)
    con.register("batch", {name: np.array(values, dtype=object) for name, values in columns})
    rows = con.execute(sql("import_games")).fetchall()
    con.unregister("batch")
    found: dict[ImportRow, dict[Key, Counter[datetime | None]]] = {}
    for run, count, file, imported_at, game_id, seat0, seat1, winner, sampling, at, games in rows:
        old = found.setdefault(ImportRow(run, "", file, count, aware(imported_at)), defaultdict(Counter))
        old[game_id, seat0, seat1, winner, sampling][at] += games
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


def _wait_to_connect(path: Path, read_only: bool, deadline: float, wait: float) -> duckdb.DuckDBPyConnection:
    """Opens the store, trying again until the deadline while somebody else has it.

    A log that cannot be replayed is set aside, with a warning.
    """
    pause = 0.01
    log = Path(f"{path}.wal")
    while True:
        file_number = _file_number(log)
        try:
            if not path.is_file():
                kind = "is a folder, not a league store" if path.is_dir() else "is gone or no file"
                raise StoreError(f"{path} {kind}; pass another --store")
            return _connect(path, read_only)
        except duckdb.Error as error:
            text = str(error)
            if any(sign in text for sign in _BROKEN_LOG_SIGNS) and _set_aside(path, log, file_number, error):
                continue
            if not any(sign in text for sign in _BUSY_SIGNS):
                raise StoreError(_damage(path, error)) from None
            if time.monotonic() + pause > deadline:
                raise StoreBusy(_busy(path, text, wait)) from None
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)


def _missing(path: Path) -> str:
    runs = sorted(index.parents[1].name for index in path.parent.glob("*/state/state.json"))
    if not runs:
        return f"no store at {path}; run `league train` first, or pass --store"
    named = ", ".join(runs[:3]) + (f" and {len(runs) - 3} more" if len(runs) > 3 else "")
    return (
        f"no store at {path}, but files of {named} are beside it; put a copy of the store back to carry on, or pass"
        f" --store; their snapshots play by their folders' paths"
    )


def _file_number(path: Path) -> int | None:
    """The inode; None where there is no file."""
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _set_aside(path: Path, log: Path, file_number: int | None, error: duckdb.Error) -> bool:
    """Renames the log that could not be replayed, so that the store opens without it; it is never deleted.

    file_number: of that log. Where another process was faster there is another log now, or none: that one stays.
    """
    if file_number is None or _file_number(log) != file_number:
        return file_number is not None
    aside = log.with_name(f"{log.name}.bad-{now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}")
    try:
        size = log.stat().st_size
        log.rename(aside)
    except OSError:
        return False
    _log.warning(
        "store %s: its log cannot be replayed (%s), so what was written since the last checkpoint is lost;"
        " `league resume` says what a run misses. The log is kept: %s (%d bytes)",
        path, _first_line(error), aside.name, size,
    )  # fmt: skip
    return True


def _busy(path: Path, text: str, wait: float) -> str:
    held = re.search(r"PID (\d+)", text)
    by = f"process {held[1]}" if held else "another user"
    return f"store {path} is held by {by} (waited {wait:g} s); let it finish or end it, then try again"


def _damage(path: Path, error: duckdb.Error) -> str:
    text = _first_line(error)
    if "WAL" in text:
        return f"store {path} cannot replay its log ({text}); move {path}.wal aside to open it without its last writes"
    if "not a valid DuckDB" in text or "extension" in text:
        return f"{path} is not a league store; pass another --store"
    if "version number" in text:
        return f"store {path} was written by a newer DuckDB ({text}); install that, or pass another --store"
    return f"store {path} cannot be used ({text}); free space or rights, restore a copy, or pass another --store"


def _fetch(result: duckdb.DuckDBPyConnection, most: int) -> list[tuple[Any, ...]]:
    """The first `most` rows.

    Raises:
        UsageError: they hold more than `MAX_QUERY_BYTES`.
    """
    rows: list[tuple[Any, ...]] = []
    size = 0
    while len(rows) < most:
        found = result.fetchmany(min(_ROWS_AT_ONCE, most - len(rows)))
        if not found:
            break
        rows += found
        size += sum(len(value) if isinstance(value, str | bytes) else 8 for row in found for value in row)
        if size > MAX_QUERY_BYTES:
            raise UsageError(f"the query's result is larger than {MAX_QUERY_BYTES // 2**20} MiB; ask for less")
    return rows


def _refuse_all_but_a_read(con: duckdb.DuckDBPyConnection, statement: str) -> None:
    try:
        statement.encode()  # DuckDB takes no text that UTF-8 cannot hold
        kinds = [found.type.name for found in con.extract_statements(statement)]
    except ValueError as error:  # or it is of a kind that DuckDB's Python names have not got
        raise UsageError(f"a query reads: SELECT or EXPLAIN; this is something else ({error})") from None
    if len(kinds) != 1:
        raise UsageError(f"a query is one statement, not {len(kinds)}; pass one SELECT")
    if kinds[0] not in ("SELECT", "EXPLAIN"):
        raise UsageError(f"a query reads: SELECT or EXPLAIN, not {kinds[0]}; the store is changed by `league` alone")


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]
