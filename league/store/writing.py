"""What is written to a store: at once, or from rows that wait in memory for the next flush."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from league.acts import act
from league.errors import StoreError, UsageError, command
from league.store.codec import naive, replay_columns, to_columns
from league.store.flushing import Flusher
from league.store.importing import Earlier, MatchFile, delete_import, write_import
from league.store.rows import (
    AgentRow,
    GameRow,
    GateRow,
    ImportRow,
    LearnerRow,
    RatingRow,
    RunRow,
    RunStatus,
    Sampling,
    SnapshotRow,
    now,
)
from league.store.sql import sql
from league.store.waiting import write_batch
from league.types import MatchResult, Source

_DELETES_AFTER = (
    "delete_metrics_after",
    "delete_events_after",
    "delete_ratings_after",
    "delete_agents_after",
    "delete_snapshots_after",
)
"""Of a run, past an update, beside its matches; agents go while their snapshots tell whose they are."""


class Writer(Flusher):
    """A store that is written, too. What `add_*` and `update_run` are given waits in memory until `flush`."""

    def add_matches(self, matches: Iterable[MatchResult]) -> None:
        """Buffers finished matches; one replaces an earlier one of the same (run, kind, update, row, ordinal).

        Raises:
            ValueError: a match holds a value that cannot be.
        """
        finished_at = now()
        for match in matches:
            columns = to_columns(match, finished_at=finished_at)
            self._waiting.add("match", columns)
            for replay in replay_columns(match, columns):
                self._waiting.add("replay", replay)

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
            row = {"run": run, "update": update, "steps": steps, "name": name, "agent_id": agent_id}
            self._waiting.add("metric", row | {"value": float(value)})

    def add_event(self, run: str, update: int, kind: str, message: str) -> None:
        """Buffers something worth remembering: a skipped update, a restart, a stop."""
        event = {"run": run, "update": update, "kind": kind, "message": message, "happened_at": naive(now())}
        self._waiting.add("event", event)

    def add_game(self, game: GameRow) -> None:
        """Buffers what boards need to know of a game; it replaces what was known of its id."""
        self._waiting.add("game", to_columns(game))

    def add_agent(self, agent: AgentRow) -> None:
        """Buffers an agent; it replaces an earlier one of the same (game_id, agent_id)."""
        self._waiting.add("agent", to_columns(agent))

    def add_snapshot(self, snapshot: SnapshotRow) -> None:
        """Buffers a snapshot, which becomes an agent named RUN@STEP; it replaces an earlier one of its run and step."""
        self._waiting.add("snapshot", to_columns(snapshot))

    def replace_board(self, game_id: str, sampling: Sampling, prior: float, ratings: Sequence[RatingRow]) -> bool:
        """Writes a board's ratings in the place of those that it had, if the store can be written at this moment.

        Returns:
            Whether it could.
        """
        board = {"game_id": game_id, "sampling": sampling, "prior": prior}
        rated_at = now()
        try:
            with self.connection.transaction(wait=0.0) as con:
                con.execute(sql("delete_board"), board)
                write_batch(con, "rating", [to_columns(row, rated_at=rated_at) for row in ratings])
        except StoreError:
            return False
        return True

    def update_run(
        self, run: str, *, status: RunStatus | None = None, steps: int | None = None, update: int | None = None
    ) -> None:
        """Notes how far a run is. A change of status is written at once, with all that waits; the rest can wait.

        An end is kept where it cannot be written (`flush_or_keep`).

        Raises:
            StoreBusy: the run is `running` now, and another process kept the store for `LOCK_SECONDS`.
            StoreError: the status changed, and it could not be written.
        """
        self._waiting.note(run, status, steps, update)
        is_changed = status is not None and status != self._status.get(run)
        if is_changed and status != "running":
            self.flush_or_keep()
        else:
            self.flush(force=is_changed)
        if is_changed and status is not None:
            self._status[run] = status

    @act("write the run")
    def begin_run(self, run: RunRow) -> None:
        """Writes a new run at once.

        Raises:
            UsageError: the name is taken.
            StoreError: the store cannot be written.
        """
        with self.connection.transaction() as con:
            is_league = con.execute(sql("learners"), {"league": run.run}).fetchone() is not None
            is_new = not is_league and con.execute(sql("begin_run"), to_columns(run)).fetchone() is not None
        if not is_new:
            raise UsageError(
                f"run `{run.run}` is already in {self.path}; carry it on with"
                f" {command('resume', run.run, store=self.path)}, or pass another --run"
            )
        self._status[run.run] = run.status

    def begin_league(
        self, runs: Sequence[RunRow], learners: Sequence[LearnerRow], prepare: Callable[[], None] = lambda: None
    ) -> bool:
        """Writes all runs of a new league at once, all or nothing.

        prepare: called when the names are known to be free, and no other process can take them.

        Returns:
            Whether it was new; False: its name or a run's is taken, and nothing was written.

        Raises:
            StoreError: the store cannot be written.
        """
        with self.connection.transaction() as con:
            taken = {name for (name,) in con.execute(sql("run_names")).fetchall()}
            if taken & {learners[0].league, *(row.run for row in runs)}:
                return False
            prepare()
            for run in runs:
                con.execute(sql("begin_run"), to_columns(run))
            for learner in learners:
                con.execute(sql("begin_learner"), to_columns(learner))
        return True

    @act("begin a gate")
    def begin_gate(self, gate: GateRow, alpha_of: Callable[[int], float]) -> GateRow:
        """Writes a gate that begins, at once, so that one which is broken off counts as an attempt, too.

        alpha_of: the error that the attempt of this number, counted from 1, may make.

        Returns:
            The gate with its attempt and alpha.

        Raises:
            StoreError: the store cannot be written.
        """
        with self.connection.transaction() as con:
            asked = {name: getattr(gate, name) for name in ("run", "game_id", "challenger", "opponent")}
            row = con.execute(sql("gate_attempts"), asked).fetchone()
            attempt = 1 + (row[0] if row else 0)
            gate = replace(gate, attempt=attempt, alpha=alpha_of(attempt))
            con.execute(sql("begin_gate"), to_columns(gate))
        return gate

    @act("end a gate")
    def end_gate(self, gate: GateRow, champion: str | None) -> GateRow:
        """Writes what a gate came to, and all that waits, or keeps both (`flush_or_keep`).

        champion: the run's when the gate began; where it is another one by now nobody is promoted.

        Returns:
            The gate as it was written.

        Raises:
            StoreError: as `flush_or_keep`.
        """
        self._waiting.end_gate(gate, champion)
        if not self.flush_or_keep():
            return gate
        return next((row for row in self.gates() if row.gate == gate.gate), gate)  # it may not have begun

    @act("import")
    def add_import(
        self, file: MatchFile, wanted: str | None = None, earlier: Earlier = "refuse"
    ) -> tuple[ImportRow, list[ImportRow]]:
        """Writes a file's matches and the agents that they bring at once, all or nothing, but for those stored already.

        wanted: the `run` that the matches get; the next free `import-N` if None. earlier: what becomes of an earlier
        import of which this one has at least half of the games once more.

        Returns:
            The import as it was written, whose `matches` may be fewer than were given; and those that it replaced.

        Raises:
            UsageError: the name is taken, that content was imported before, all matches are stored already, most of an
                earlier import would count twice, or there is none to replace.
            StoreError: the store cannot be written.
        """
        with self.connection.transaction() as con:
            return write_import(con, self.path, file, wanted, earlier)

    @act("remove an import")
    def remove_import(self, run: str) -> ImportRow:
        """Deletes an import at once, all of it: its matches, the agents that it alone brought, and boards with them.

        Returns:
            The import as it was.

        Raises:
            UsageError: there is none of that name.
            StoreError: the store cannot be written.
        """
        with self.connection.transaction() as con:
            return delete_import(con, self.path, run)

    def extend_run(
        self,
        run: str,
        *,
        stage: str,
        config: str,
        fingerprint: str,
        device: str | None = None,
        source: Source | None = None,
    ) -> None:
        """Sets a run going again at once, for `stage`, with `config` (JSON), `fingerprint` and `device` from now on.

        source: where its game comes from now; None: as before.

        Raises:
            StoreError: the store cannot be written.
        """
        values = {
            "run": run,
            "stage": stage,
            "config": config,
            "fingerprint": fingerprint,
            "device": device,
            "game_address": None if source is None else source.address,
            "game_version": None if source is None else source.version,
            "game_sha256": None if source is None else source.sha256,
            "updated_at": naive(now()),
        }
        with self.connection.transaction() as con:
            con.execute(sql("extend_run"), values)
        self._status[run] = "running"

    @act("mark pruned")
    def mark_pruned(self, run: str, steps: Sequence[int]) -> None:
        """Writes at once that the files of a run's snapshots at `steps` are, or are about to be, deleted.

        Raises:
            StoreError: the store cannot be written.
        """
        with self.connection.transaction() as con:
            values = {"run": run, "steps": list(steps), "pruned_at": naive(now())}
            con.execute(sql("prune_snapshots"), values)

    def need_writable(self) -> None:
        """Refuses a store that this user may not write, before anything is played for it.

        Raises:
            StoreError: it is one.
        """
        for path in (self.path, self.path.parent):
            if not os.access(path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
                raise StoreError(
                    f"store {self.path}: you may not write {path}; see to its rights, or pass another --store"
                )

    @act("delete what came after")
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
        with self.connection.transaction() as con:
            (num_matches,) = con.execute(sql("delete_matches_after"), given).fetchone() or (0,)
            for name in _DELETES_AFTER:
                con.execute(sql(name), given)
        self._waiting.forget_after(run, update)
        return int(num_matches)
