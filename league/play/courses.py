"""MatchesUnderWay of an evaluation under way: which are played, by whom, and what they came to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace

import numpy as np
import numpy.typing as npt

from league.errors import UsageError
from league.play.pairings import Pairing
from league.play.recording import Recorder, Recording
from league.play.seats import forfeited, match_result
from league.play.summaries import check_games, num_rows
from league.types import (
    BOT_PREFIX,
    EXTERNAL,
    SEATS,
    BoolArray,
    Closing,
    MatchBatch,
    MatchResult,
    Origin,
    Turns,
)

MAX_STEPS = 1_000_000
"""Of a match; of brawl they are 28 hours."""


class MatchPlan:
    """The rows of all pairings: (B,) arrays, and who sits in seat 0 and seat 1 of each row."""

    def __init__(self, pairings: Sequence[Pairing]) -> None:
        pairing, quota, seeds = [], [], []
        for k, p in enumerate(pairings):
            check_games(p.games)
            alike = SEATS if p.a.agent_id != p.b.agent_id else 1  # with its seats swapped it is the same match
            groups, wide = p.games // alike, num_rows(p.games) // alike
            pairing.append(np.full(alike * wide, k))
            quota.append(np.repeat(groups // wide + (np.arange(wide) < groups % wide), alike))
            seeds.append(np.repeat(np.random.SeedSequence(p.seed).generate_state(wide, np.uint64), alike))
        self.pairing: npt.NDArray[np.int64] = np.concatenate(pairing)
        self.quota: npt.NDArray[np.int64] = np.concatenate(quota)
        """MatchesUnderWay that each row plays, however short they are."""
        self.seeds: npt.NDArray[np.uint64] = np.concatenate(seeds)
        ids = [(p.a.agent_id, p.b.agent_id) for p in pairings]
        self.agents = [ids[k] if row % SEATS == 0 else ids[k][::-1] for row, k in enumerate(self.pairing.tolist())]
        self._names = {who.agent_id: who.name for p in pairings for who in (p.a, p.b)}

    def first_rows(self, count: int) -> list[int]:
        """The first `count` rows of each pairing, or all that it has."""
        starts = np.searchsorted(self.pairing, self.pairing)
        return np.flatnonzero(np.arange(len(self.pairing)) - starts < count).tolist()

    def names(self, row: int) -> tuple[str, str]:
        """What those in seat 0 and seat 1 of a row are called; a bot by its id, where it has no name."""
        first, second = (self._names[a] or (a if a.startswith(BOT_PREFIX) else "") for a in self.agents[row])
        return first, second


class MatchesUnderWay:
    """The match of each row so far, and the results of those that ended."""

    def __init__(
        self, batch: MatchBatch, plan: MatchPlan, origin: Origin, update: int, recording: Recording, *, greedy: bool
    ) -> None:
        self._batch, self._plan, self._game, self._decisions = batch, plan, recording.game, recording.decisions
        self._written = {**asdict(origin), "update": update, "sampling": "greedy" if greedy else "sample"}
        self._recorder = Recorder(batch, plan.first_rows(recording.matches))
        self._courses = Courses(batch, plan.agents, greedy=greedy)
        self.played, self._steps = np.zeros(batch.num_rows, np.int64), np.zeros(batch.num_rows, np.int64)
        self._sums = np.zeros(batch.reward_terms.shape, np.float64)
        self.results: list[MatchResult] = []

    def step(self, seats: Seats, playing: BoolArray) -> None:
        """Plays the actions that are set."""
        rows = [] if self._decisions is None else np.flatnonzero(playing).tolist()
        self._recorder.before()
        if self._decisions is not None:
            self._decisions.before(self._batch, rows)
        seats.step()
        self._recorder.after()
        if self._decisions is not None:
            self._decisions.after(self._batch, rows)
        self._courses.take()
        self._steps += 1
        need_ends(self._batch, self._steps, playing)
        self._sums += self._batch.reward_terms

    def finish(self, playing: BoolArray, forfeits: BoolArray) -> npt.NDArray[np.int64]:
        """Adds the results of the matches that ended; returns their rows.

        forfeits: (B, S), who has forfeited.
        """
        ended = np.flatnonzero((self._batch.terminated | self._batch.truncated) & playing)
        self.results += [
            forfeited(self._result(row), forfeits[row].tolist(), self._batch.spec) for row in ended.tolist()
        ]
        self.played[ended] += 1
        self._steps[ended] = 0
        self._sums[ended] = 0
        self._courses.clear(ended)
        return ended

    def _result(self, row: int) -> MatchResult:
        result = match_result(
            self._batch,
            row,
            self._sums[row],
            **self._written,
            kind="evaluation",
            ordinal=int(self.played[row]),
            agents=self._plan.agents[row],
            steps=int(self._steps[row]),
            course=self._courses.of(row),
        )
        if self._decisions is not None:
            self._decisions.finish(row, f"match {row}.{result.ordinal}", result.seed)
        tape = self._recorder.finish(row)
        if tape is None:
            return result
        return replace(result, replay=tape.written(self._game, result, self._plan.names(row)))


class Courses:
    """A hash of what was observed so far in the matches of each row in which neither side samples."""

    def __init__(self, batch: MatchBatch, agents: Sequence[tuple[str, str]], *, greedy: bool) -> None:
        self._batch = batch
        self._is_fixed = [greedy or all(agent.startswith(BOT_PREFIX) for agent in pair) for pair in agents]
        words = int(np.prod(batch.obs.shape[1:]))
        self._factors = np.random.default_rng(0).integers(1, 2**63, words, np.uint64) * np.uint64(2) + np.uint64(1)
        self._hashes = np.zeros(batch.num_rows, np.uint64)

    def take(self) -> None:
        """After a step; of a match that ended in it the last observation counts."""
        batch = self._batch
        if any(self._is_fixed):
            over = (batch.terminated | batch.truncated)[:, None, None]
            seen = np.where(over, batch.final_obs, batch.obs).view(np.uint32).reshape(batch.num_rows, -1)
            self._hashes = self._hashes * np.uint64(6364136223846793005) + (seen * self._factors).sum(axis=1)

    def of(self, row: int) -> int | None:
        """The hash of the match that has ended in a row; None where a side samples."""
        return int(self._hashes[row]) if self._is_fixed[row] else None

    def clear(self, ended: npt.NDArray[np.int64]) -> None:
        """New matches begin in these rows."""
        self._hashes[ended] = 0


@contextmanager
def closed_after(batch: MatchBatch) -> Iterator[None]:
    """Lets go of what a batch holds beside memory, however it ends."""
    try:
        yield
    finally:
        if isinstance(batch, Closing):
            batch.close()


class Seats:
    """Who decides in a step of a batch, and who looks on."""

    def __init__(self, batch: MatchBatch) -> None:
        self._batch, self._turns = batch, batch if isinstance(batch, Turns) else None
        self._is_net: BoolArray = batch.controllers == EXTERNAL
        self._playing = np.ones(batch.num_rows, np.bool_)
        self._deciding = np.ones_like(self._is_net)

    def acting(self, playing: BoolArray) -> BoolArray:
        """(B, S): the nets' seats that decide in the next step; rows that are not `playing` (B,) have nothing to do."""
        self._playing = playing
        if self._turns is not None:
            self._deciding = self._turns.to_act & playing[:, None]
            self._turns.held[:] = ~playing
        return np.asarray(self._deciding & playing[:, None] & self._is_net)

    def step(self) -> None:
        """The games' step. Where nobody can be held, rows that have nothing to do play on, by legal actions."""
        idle = ~self._playing
        if self._turns is None and idle.any():
            spec, mask = self._batch.spec.action, self._batch.mask
            numbers = np.ones((int(idle.sum()), SEATS, spec.num_draws))
            self._batch.actions[idle] = spec.legal_actions(None if mask is None else mask[idle], numbers)
        self._batch.step()

    def watching(self) -> BoolArray:
        """(B, S): the nets' seats that wait on after the other's decision, which their own next one would not show."""
        if self._turns is None:
            return np.zeros_like(self._is_net)
        is_over = self._batch.terminated | self._batch.truncated
        return np.asarray(self._deciding[:, ::-1] & ~self._turns.to_act & ~is_over[:, None] & self._is_net)


def need_ends(batch: MatchBatch, steps: npt.NDArray[np.int64], playing: BoolArray) -> None:
    """Refuses a match that does not end: `steps` (B,) made of those in play.

    Raises:
        UsageError: one has taken more than `MAX_STEPS`.
    """
    if (steps * playing).max() > MAX_STEPS:
        row = int((steps * playing).argmax())
        raise UsageError(
            f"game {batch.spec.name}: the match in row {row} has not ended after {MAX_STEPS:,} steps; give the game a"
            f" limit after which a match is over"
        )
