"""The batch of the duel in plain Python: what the compiled one is tested against, bit for bit.

`match.py` plays the matches.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.cards.layout import CHOICES
from league.envs.cards.rules import BOTS, END_REASONS, MAX_TUPLES, METRICS, TERMS, CardRules
from league.envs.cards.state import STATE_DTYPE, Records, pack_state, regroup_states, unpack_state
from league.envs.inputs import need_controllers, need_seed, refuse_tuple
from league.types import EXTERNAL, SEATS, GameSpec, result_dtype
from tests.oracles.cards.match import Outcome, ReferenceMatch, row_seed
from tests.oracles.cards.state import END

PARTS = 4


class ReferenceBatch:
    """`rows` matches of `ReferenceMatch` stepped one after the other; a `league.types.MatchBatch` in `Turns`.

    Arguments, arrays and states are those of the compiled `CardsBatch`, and so is every bit that it plays. `threads` is
    accepted and makes no difference.

    Raises:
        ValueError: a count below 1.
    """

    def __init__(self, rows: int, threads: int, *, spec: GameSpec, rules: CardRules, options_hash: bytes) -> None:
        for name, count in (("rows", rows), ("threads", threads)):
            if count < 1:
                raise ValueError(f"{name}={count} must be at least 1")
        self.spec, self.rules, self.num_rows, self.threads = spec, rules, rows, threads
        self._options_hash = options_hash
        self.obs = np.zeros((rows, SEATS, spec.obs_size), np.float32)
        self.final_obs = np.zeros_like(self.obs)
        self.actions = np.zeros((rows, SEATS, PARTS), np.int32)
        self.mask = np.zeros((rows, SEATS, MAX_TUPLES * PARTS), np.int16)
        self.reward_terms = np.zeros((rows, SEATS, len(TERMS)), np.float32)
        self.terminated = np.zeros(rows, np.bool_)
        self.truncated = np.zeros(rows, np.bool_)
        self.to_act = np.zeros((rows, SEATS), np.bool_)
        self.held = np.zeros(rows, np.bool_)
        self.result = np.zeros(rows, result_dtype(len(METRICS)))
        self.controllers = np.full((rows, SEATS), EXTERNAL, np.int16)
        self.reset(0)

    def reset(self, seed: int | npt.NDArray[np.uint64]) -> None:
        """See `MatchBatch.reset`.

        Raises:
            ValueError: the seed is neither an int within [0, 2**64) nor a uint64 array (B,).
        """
        given = need_seed(seed, self.num_rows)
        seeds = [row_seed(given, i) for i in range(self.num_rows)] if isinstance(given, int) else given.tolist()
        self._clear()
        self._matches = [ReferenceMatch(self.rules, seed) for seed in seeds]
        self._show(range(self.num_rows))

    def step(self) -> None:
        """One decision of every match that is not held, by the seat that is to act; what is not legal ends its turn.

        Raises:
            ValueError: a controller is unknown, or numbers of an external seat that is to act are no action; nothing
                has moved then.
        """
        need_controllers(self.controllers, len(BOTS))
        played = np.flatnonzero(~self.held).tolist()
        given = self.actions.tolist()
        for row in played:
            seat = self._matches[row].acting
            if self.controllers[row, seat] != EXTERNAL:
                continue
            if any(not 0 <= part < number for part, number in zip(given[row][seat], CHOICES, strict=True)):
                refuse_tuple(row, seat, self.actions, CHOICES)
            if not self.is_legal(row, given[row][seat]):
                given[row][seat] = list(END)
        self._hand_over()
        self.reward_terms.fill(0)
        self.terminated.fill(False)
        for row in played:
            out = self._matches[row].step(given[row])
            self.reward_terms[row] = [[terms[name] for name in TERMS] for terms in out.terms]
            self.terminated[row] = out.end_reason is not None
            if out.end_reason is not None:
                self._note_end(row, out)
        self._show(played)

    def record(self, row: int) -> Any:
        """A copy of one match's state, a STATE_DTYPE scalar, for those who draw or describe it.

        Raises:
            IndexError: no such row.
        """
        self._need_row(row)
        return self._records()[row].copy()

    def is_legal(self, row: int, action: Sequence[int] | npt.NDArray[Any]) -> bool:
        """Whether the seat that is to act in `row` may play `action`, four whole numbers; judged without the mask.

        Raises:
            IndexError: no such row.
        """
        self._need_row(row)
        return tuple(int(part) for part in action) in self._matches[row].legal()

    def get_state(self) -> bytes:
        """Everything that the next steps depend on, as `state.py` lays it out; controllers included."""
        self._hand_over()
        return pack_state(self._records(), self._options_hash)

    def set_state(self, state: bytes) -> None:
        """Restores `get_state()` of a batch of the same options and size; writes controllers, obs, mask and to_act.

        Raises:
            ValueError: the blob is damaged or of another game, version, size or set of options.
        """
        records = unpack_state(state, self.num_rows, self._options_hash, self.rules)
        self._matches = [ReferenceMatch.of_record(self.rules, record) for record in records]
        self.controllers[:] = records["keepers"]["controller"]
        self._clear()
        self._show(range(self.num_rows))

    def regroup(self, states: Sequence[bytes], num_rows: Sequence[int]) -> list[bytes]:
        """The matches of `states`, in their order, as states of batches of `num_rows` rows each (`types.Regrouping`).

        Raises:
            ValueError: a blob is damaged or of another game, version or set of options, or the rows differ in number.
        """
        return regroup_states(states, num_rows, self._options_hash, self.rules)

    def _need_row(self, row: int) -> None:
        if not 0 <= row < self.num_rows:
            raise IndexError(f"row={row} must be within [0, {self.num_rows})")

    def _records(self) -> Records:
        return np.array([match.record() for match in self._matches], STATE_DTYPE)

    def _hand_over(self) -> None:
        """Tells the matches who plays."""
        for match, controllers in zip(self._matches, self.controllers.tolist(), strict=True):
            for keeper, controller in zip(match.keepers, controllers, strict=True):
                keeper.controller = controller

    def _note_end(self, row: int, out: Outcome) -> None:
        result = self.result[row : row + 1]
        result["winner"], result["end_reason"] = out.winner, END_REASONS.index(str(out.end_reason))
        result["ticks"], result["seed"], result["metrics"] = out.ticks, out.seed, out.metrics
        self.final_obs[row] = out.final_obs

    def _clear(self) -> None:
        for array in (self.reward_terms, self.terminated, self.truncated, self.final_obs):
            array.fill(0)
        self.result.view(np.uint8).fill(0)

    def _show(self, rows: Sequence[int]) -> None:
        """Observations, legal tuples and turns; who waits has the end of a turn alone."""
        for row in rows:
            match = self._matches[row]
            self.obs[row] = [match.observe(seat) for seat in range(SEATS)]
            self.to_act[row] = [seat == match.acting for seat in range(SEATS)]
            self.mask[row] = -1
            for seat in range(SEATS):
                tuples = np.array(match.legal() if seat == match.acting else [END], np.int16).reshape(-1)
                self.mask[row, seat, : len(tuples)] = tuples


def decisions_a_second(batch: ReferenceBatch, seconds: float = 0.2) -> float:
    """How fast it plays here, measured over about so many seconds of matches in which everybody decides at random."""
    batch.controllers[:] = BOTS.index("random")
    batch.reset(0)
    steps, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        batch.step()
        steps += 1
    return steps * batch.num_rows / spent
