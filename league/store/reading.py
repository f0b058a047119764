"""What is read from a store: its rows, and what is counted of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

from league.errors import UsageError, nearest
from league.maths.pairs import SUMS, PairCounts, PairSums
from league.maths.record import Record
from league.runtime.phases import phase
from league.store.codec import aware, from_columns
from league.store.locks import LOCK, is_held
from league.store.query import QUERY_SECONDS, ask
from league.store.remote import remote_of
from league.store.rows import (
    AgentRow,
    EventRow,
    GameRow,
    GateRow,
    ImportRow,
    LearnerRow,
    ReplayRow,
    RewardTerm,
    RunRow,
    RunStatus,
    Sampling,
    SnapshotRow,
)
from league.store.sql import sql
from league.store.view import View
from league.types import SEATS, MatchResult
from league.types.schema import MAX_COUNT, check_number

ShownStatus = RunStatus | Literal["died", "unknown"]
TrainingGame = tuple[str, float, float | None]
"""A training game: the opponent, the learner's score (1, 0.5 or 0), and its payoff where the game has a utility."""
LEAST_LISTED = 10
"""Decided matches of an imported file that one seat has to have won, all of them, to be a list of winners first."""


class Reader(View):
    """A store that is read. Each reading sees what the folders say at that moment, or when `reading` began."""

    def brought(self, path: str) -> Path:
        """A run's folder, or a snapshot's, by its path in the store; whole, also where the store is at an address."""
        there = remote_of(self.path)
        return there.need(path) if there else self.path / path

    def bytes_of(self, path: str) -> int:
        """Bytes of the files of a folder, by its path in the store; 0 where it is not there."""
        here = sum(file.stat().st_size for file in (self.path / path).rglob("*") if file.is_file())
        there = remote_of(self.path)
        return here or (there.size_of(path) if there else 0)

    def runs(self) -> list[RunRow]:
        """All runs, oldest first."""
        return self.select_rows(RunRow, "runs")

    def find_run(self, run: str) -> RunRow:
        """The run of that name.

        Raises:
            UsageError: there is none.
        """
        runs = {row.run: row for row in self.runs()}
        if run not in runs:
            raise UsageError(self.no_run(run, runs))
        return runs[run]

    def runs_with_status(self) -> list[tuple[RunRow, ShownStatus]]:
        """All runs with their true status, oldest first."""
        return [(run, self.status_of(run)) for run in self.runs()]

    def status_of(self, run: RunRow) -> ShownStatus:
        """A run's true status: what its files say, but `died` where that is `running` and no process trains it now.

        `unknown` where that cannot be told: of a run whose files are elsewhere, or that another machine trained last.
        """
        if run.status != "running":
            return run.status
        is_alive = is_held(self.path / run.run / LOCK)
        if is_alive is not False:
            return "running" if is_alive else "unknown"
        now = self.find_run(run.run).status  # it may have finished since it was read
        return "died" if now == "running" else now

    def no_run(self, run: str, known: Iterable[str]) -> str:
        """Why there is no run of a name: its folder cannot be read, or others are `known`."""
        return self.left_out(run) or f"no run `{run}` in {self.path}{nearest(run, known)}"

    def learners(self, league: str | None = None) -> list[LearnerRow]:
        """The learners of one league or of all, each league's in its file's order."""
        return self.select_rows(LearnerRow, "learners", league=league)

    def snapshots(self, run: str) -> list[SnapshotRow]:
        """A run's snapshots, oldest first."""
        return self.select_rows(SnapshotRow, "snapshots", run=run)

    def all_snapshots(self) -> dict[str, list[SnapshotRow]]:
        """Run -> its snapshots, oldest first, of every run that has any."""
        found: dict[str, list[SnapshotRow]] = {}
        for row in self.select_rows(SnapshotRow, "snapshots", run=None):
            found.setdefault(row.run, []).append(row)
        return found

    def agents(self, game_id: str) -> list[AgentRow]:
        """The agents known in one game."""
        return self.select_rows(AgentRow, "agents", game_id=game_id)

    def game(self, game_id: str) -> GameRow:
        """What is known of a game; only its id where no run, evaluation or tournament of it began here."""
        return next(iter(self.select_rows(GameRow, "game", game_id=game_id)), GameRow(game_id))

    def games(self) -> dict[str, str]:
        """Game id -> the game's name (empty where no run tells), the latest run's first."""
        return dict(self.select("games"))

    def matches(self, run: str, kind: Literal["training", "evaluation"]) -> list[MatchResult]:
        """A run's matches of one kind, in key order."""
        return self.select_rows(MatchResult, "matches", run=run, kind=kind)

    @phase("read matches")
    def games_played(
        self, kind: Literal["training", "evaluation"], run: str | None = None, game_id: str | None = None
    ) -> list[tuple[MatchResult, datetime]]:
        """Matches of one kind without their metrics and rewards, and when each ended, oldest first.

        Of one run or game, or of all. A game that was played before comes once, as `pair_counts` counts it.
        """
        columns, rows = self._select("games_played", {"kind": kind, "run": run, "game_id": game_id})
        *of_match, _ = columns  # and when it ended
        return [(from_columns(MatchResult, of_match, row[:-1]), aware(row[-1])) for row in rows]

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
        the same course, so that an evaluation repeated with its seed adds nothing. Games without sampling that all went
        alike, of any seeds, are one game for each seating. An imported file in which one seat won all of at
        least `LEAST_LISTED` decided matches names winners first: its pairs are apart, and `unseated`.
        """
        values = {"game_id": game_id, "kind": kind, "run": run, "sampling": sampling, "least": LEAST_LISTED}
        with self.reading():
            con = self.cursor(sql("pair_counts"))
            found = con.execute(sql("pair_counts"), values).fetchnumpy()
            seated = con.execute(sql("seated")).fetchnumpy()
        names, by_hash = seated["agent_id"], np.argsort(seated["number"])
        a, b = (names[by_hash[np.searchsorted(seated["number"], found[end], sorter=by_hash)]] for end in ("a", "b"))
        sums = np.stack([found[name].astype(np.float64) for name in SUMS], axis=1)
        unseated = np.concatenate([found["is_unseated"].astype(bool)] * SEATS)
        columns = [
            np.concatenate([found[f"{name}0"], found[f"{other}1"]]).astype(np.int64)
            for name, other in (("wins", "losses"), ("draws", "draws"), ("losses", "wins"))
        ]
        seats = np.concatenate([a, b]), np.concatenate([b, a])
        order = [i for i in np.lexsort((unseated, seats[1], seats[0])) if sum(column[i] for column in columns)]
        wins, draws, losses = (column[order] for column in columns)
        return PairCounts(
            tuple(seats[0][order].tolist()),
            tuple(seats[1][order].tolist()),
            wins,
            draws,
            losses,
            unseated=unseated[order],
            sums=PairSums(tuple(a.tolist()), tuple(b.tolist()), sums, bool((found["paying"] == found["games"]).all())),
        )

    def head_to_head(self, game_id: str, a: str, b: str, sampling: Sampling) -> tuple[Record, Record, Record]:
        """What `a` did against `b`, as `pair_counts` counts games: in all, from seat 0 and from seat 1."""
        games = self.select("head_to_head", game_id=game_id, a=a, b=b, sampling=sampling)
        bound = self.game(game_id).bound

        def record(seats: tuple[bool, ...]) -> Record:
            kept = [(seed, is_first, winner, paid) for is_first, winner, paid, seed in games if is_first in seats]
            outcomes = [1 if winner < 0 else int((winner == 0) != is_first) * 2 for _, is_first, winner, _ in kept]
            payoffs = [paid if is_first or paid is None else -paid for _, is_first, _, paid in kept]
            return Record.of([seed for seed, *_ in kept], outcomes, payoffs, bound)

        return record((True, False)), record((True,)), record((False,))

    def lineages(self, game_id: str) -> list[list[str]]:
        """Snapshots (agent ids) of one game, each trained from the one before, oldest first.

        There is one lineage for each run, and another for each time that one went back to earlier weights.
        """
        lineages: list[list[str]] = []
        last_run = None
        for run, agent_id, parent in self.select("lineages", game_id=game_id):
            if run != last_run:
                lineages.append([])
            elif parent not in (None, lineages[-1][-1]):
                lineages.append([parent])
            lineages[-1].append(agent_id)
            last_run = run
        return lineages

    def champion(self, run: str) -> str | None:
        """The agent id of the run's champion, which a gate promoted; None where there is none."""
        return self.champions().get(run)

    def champions(self) -> dict[str, str]:
        """Run -> its champion, of every run that has one."""
        return dict(self.select("champions"))

    def metrics(self, run: str, name: str | None = None) -> list[tuple[int, int, str, float | None]]:
        """A metric of a run, or all, by update: update, steps, name, value; None: not a number."""
        return self.select("metrics", run=run, name=name)

    def gates(self, run: str | None = None) -> list[GateRow]:
        """All gates, or those at which the title of the run's champion was at stake, oldest first."""
        return self.select_rows(GateRow, "gates", run=run)

    def events(self, run: str | None = None) -> list[EventRow]:
        """What is worth remembering of one run, or of all, oldest first."""
        return self.select_rows(EventRow, "events", run=run)

    def payoff(self, game_id: str, run: str | None = None) -> list[tuple[str, str, int, int, int]]:
        """The cross table of a game's evaluation matches: agent, opponent, and the agent's wins, draws and losses.

        Of games in which nets sampled, or bots alone played; one that was played before counts once.

        Every pair that met stands in it both ways round. With `run`, only that run's snapshots and their opponents.
        """
        return self.select("payoff", game_id=game_id, run=run)

    def imports(self) -> list[ImportRow]:
        """The files of matches that were imported, the oldest first."""
        return self.select_rows(ImportRow, "imports")

    def replays(
        self,
        run: str | None = None,
        *,
        game_id: str | None = None,
        agents: tuple[str, str] | None = None,
        last: int | None = None,
    ) -> list[ReplayRow]:
        """The matches that are kept whole, the newest first.

        Args:
            run: only those under this name: of a run, of an evaluation, a gate or an import.
            game_id: only this game's.
            agents: only between these two agents, in either order of seats.
            last: at most so many.
        """
        first, second = agents or (None, None)
        return self.select_rows(ReplayRow, "replays", run=run, game_id=game_id, first=first, second=second, last=last)

    def replay_content(self, run: str, kind: str, update: int, row: int, ordinal: int) -> str | None:
        """The text of a match that is kept whole; None where there is none of this key."""
        key = {"run": run, "kind": kind, "update": update, "row": row, "ordinal": ordinal}
        return next((content for (content,) in self.select("replay_content", **key)), None)

    def scores_over_steps(self, run: str, game_id: str) -> list[tuple[str, int, int, float]]:
        """What a run's snapshots scored against bots and its older snapshots: opponent, step, games, score a game."""
        found = self.select("alarm_forgetting", run=run, game_id=game_id, against=None)
        return [(against, step, games, score) for against, step, games, _, score in found]

    def training_games(self, run: str | None = None, game_id: str | None = None) -> dict[str, list[TrainingGame]]:
        """Run -> its training games in key order: of that run, or of each run of a game that has any."""
        found: dict[str, list[TrainingGame]] = {} if run is None else {run: []}
        for name, *game in self.select("training_games", run=run, game_id=game_id):
            found.setdefault(name, []).append(tuple(game))
        return found

    def reward_terms(self, run: str, last: int | None = None) -> list[RewardTerm]:
        """What each reward term brought in a run's training matches, the one that weighs most for the learner first.

        last: only the newest matches, so many; all if not given.

        Raises:
            UsageError: `last` is not positive, or too large.
        """
        if last is not None:
            check_number("last", last, 1, MAX_COUNT, "a number of matches, all if not given")
        return self.select_rows(RewardTerm, "reward_terms", run=run, last=last)

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
        with self.apart() as con:
            return ask(con, statement, limit, seconds)
