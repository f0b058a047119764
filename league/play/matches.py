"""The matches that are under way, row by row: who sits where, and what each has brought so far."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from league.play.opponents import NO_SLOT
from league.play.seats import forfeited, match_result
from league.types import SEATS, BoolArray, GameSpec, MatchBatch, MatchResult, Origin

ARRAYS = ("slots", "seats", "is_first", "begun_update", "steps", "sums")
"""What of them a run's state holds, beside the opponents' names."""


class RowMatches:
    """The match of each of B rows, from its first decision to its last."""

    def __init__(self, num_rows: int, spec: GameSpec, first_row: int = 0) -> None:
        self.seats: npt.NDArray[np.int64] = np.arange(first_row, first_row + num_rows) % SEATS
        """(B,): the learner's."""
        self.opponents: list[str] = [""] * num_rows
        self.slots = np.full(num_rows, NO_SLOT)
        """(B,): the opponents' nets' (`league.play.opponents`)."""
        self.is_first = np.ones(num_rows, np.bool_)
        """(B,): whether the learner's next decision is its match's first."""
        self.begun_update = np.zeros(num_rows, np.int64)
        """(B,): updates that the learner had made when it began."""
        self.steps = np.zeros(num_rows, np.int64)
        """(B,): steps of the game made."""
        self.sums = np.zeros((num_rows, SEATS, len(spec.reward_terms)), np.float64)
        """(B, S, R): the reward terms, unweighted."""
        self.ordinals = np.zeros(num_rows, np.int64)
        """(B,): matches that ended in this rollout."""

    def begin(self, rows: npt.NDArray[np.int64], updates_made: int) -> None:
        """A new match begins in each of `rows` (n,)."""
        self.begun_update[rows] = updates_made
        self.steps[rows] = 0
        self.sums[rows] = 0

    def decide(self) -> None:
        """The learner of every row decides."""
        self.is_first[:] = False

    def add(self, batch: MatchBatch, held: BoolArray | None = None) -> BoolArray:
        """Counts the step that the batch has just made, but for rows that were `held`; (B,) where a match ended."""
        self.steps += 1 if held is None else ~held
        self.sums += batch.reward_terms
        ended: BoolArray = batch.terminated | batch.truncated
        self.is_first |= ended
        return ended

    def finish(
        self, row: int, batch: MatchBatch, first_row: int, origin: Origin, update: int, *, is_forfeited: bool = False
    ) -> MatchResult:
        """The result of the match that ended; the learner takes the other seat next.

        is_forfeited: by the opponent.
        """
        seat, opponent = int(self.seats[row]), self.opponents[row]
        result = match_result(
            batch,
            row,
            self.sums[row],
            first_row=first_row,
            run=origin.run,
            game_id=origin.game_id,
            kind="training",
            update=update,
            ordinal=int(self.ordinals[row]),
            agents=(origin.run, opponent) if seat == 0 else (opponent, origin.run),
            steps=int(self.steps[row]),
            sampling="sample",
            update_begin=int(self.begun_update[row]),
            update_end=update - 1,
        )
        self.ordinals[row] += 1
        self.seats[row] = 1 - seat
        return forfeited(result, (is_forfeited and seat == 1, is_forfeited and seat == 0), batch.spec)

    def state_dict(self) -> dict[str, Any]:
        """All that goes on with the matches."""
        return {"opponents": list(self.opponents)} | {name: getattr(self, name) for name in ARRAYS}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.opponents = list(state["opponents"])
        for name in ARRAYS:
            getattr(self, name)[:] = state[name]
