"""A small game in turns, for tests: each seat moves one to four times in a row, sometimes both at once.

Who moves when follows from the match's seed alone, so that a test can say it too. Some matches are over before one of
the seats has moved, some are cut.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from league.types import DRAW, EXTERNAL, SEATS, ActionSpec, GameSpec, result_dtype

NUM_ACTIONS = 3
MATCH = np.dtype(
    [
        ("seed", np.uint64),
        ("step", np.int64),
        ("last", np.int64, (SEATS,)),
        ("points", np.int64, (SEATS,)),
        ("controllers", np.int16, (SEATS,)),
    ]
)


class Options(BaseModel):
    """None but one."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    alternating: bool = False
    """Whether the seats take turns one decision at a time."""


def spec(options: Options) -> GameSpec:
    """Own half (4 numbers), then the opponent's."""
    del options
    return GameSpec(
        name="relay",
        version=1,
        obs_size=8,
        opponent_slice=(4, 8),
        obs_range=(-1.0, 16.0),
        action=ActionSpec("multi_discrete", (NUM_ACTIONS,)),
        reward_terms=("points", "win"),
        metrics=("points",),
        end_reasons=("end",),
        bots=("first",),
        tick_rate=1.0,
        floor="first",
    )


def draw(seed: int, *what: int) -> int:
    """A number of a seed's own."""
    return int(np.random.SeedSequence([seed & 0xFFFFFFFF, seed >> 32, *what]).generate_state(1)[0])


def length(seed: int) -> int:
    """Steps of a match."""
    return 1 + draw(seed, 0) % 12


def movers(seed: int, step: int, alternating: bool) -> list[bool]:
    """Which seats are to act in a match's step."""
    first = draw(seed, 1) % SEATS
    if alternating:
        return [(first + step) % SEATS == seat for seat in range(SEATS)]
    run = 0
    while step >= 0:
        begun, step, run = step, step - 1 - draw(seed, 2, run) % 4, run + 1
    both = draw(seed, 3, begun, run) % 6 == 0
    return [both or (first + run) % SEATS == seat for seat in range(SEATS)]


def make(rows: int, threads: int, options: Options) -> RelayBatch:
    """`rows` matches."""
    del threads
    return RelayBatch(rows, options)


class RelayBatch:
    """See `league.types.MatchBatch` and `Turns`."""

    def __init__(self, rows: int, options: Options) -> None:
        self.spec, self.num_rows, self._options = spec(options), rows, options
        self.obs = np.zeros((rows, SEATS, 8), np.float32)
        self.actions = np.zeros((rows, SEATS, 1), np.int32)
        self.mask = np.ones((rows, SEATS, NUM_ACTIONS), np.bool_)
        self.reward_terms = np.zeros((rows, SEATS, 2), np.float32)
        self.terminated, self.truncated = np.zeros(rows, np.bool_), np.zeros(rows, np.bool_)
        self.final_obs = np.zeros_like(self.obs)
        self.result = np.zeros(rows, result_dtype(1))
        self.controllers = np.full((rows, SEATS), EXTERNAL, np.int16)
        self.to_act, self.held = np.ones((rows, SEATS), np.bool_), np.zeros(rows, np.bool_)
        self._matches = np.zeros(rows, MATCH)

    def reset(self, seed: int | npt.NDArray[np.uint64]) -> None:
        """See `MatchBatch.reset`."""
        if isinstance(seed, np.ndarray):
            seeds = seed
        else:
            seeds = np.random.SeedSequence(seed).generate_state(self.num_rows, np.uint64)
        for row in range(self.num_rows):
            self._begin(row, int(seeds[row]))

    def step(self) -> None:
        """See `MatchBatch.step`."""
        for array in (self.reward_terms, self.terminated, self.truncated):
            array[:] = 0
        for row in np.flatnonzero(~self.held).tolist():
            match = self._matches[row]
            seed, step = int(match["seed"]), int(match["step"])
            for seat in np.flatnonzero(self.to_act[row]).tolist():
                legal = self.mask[row, seat]
                is_bot = self.controllers[row, seat] != EXTERNAL
                action = int(legal.argmax()) if is_bot else int(self.actions[row, seat, 0])
                assert legal[action], "the game refuses what is not legal"
                gain = int(action == draw(seed, 4, step, seat) % NUM_ACTIONS)
                match["last"][seat], match["points"][seat] = action, match["points"][seat] + gain
                self.reward_terms[row, seat, 0] = gain
            match["step"] += 1
            if match["step"] < length(seed):
                self._show(row)
                continue
            self._show(row)
            mine, other = match["points"].tolist()
            self.final_obs[row] = self.obs[row]
            self.truncated[row] = seed % 5 == 0
            self.terminated[row] = not self.truncated[row]
            winner = DRAW if mine == other else int(other > mine)
            if winner != DRAW:
                self.reward_terms[row, :, 1] = [1 - 2 * winner, 2 * winner - 1]
            self.result[row] = (winner, 0, match["step"], seed, match["points"][:, None])
            self._begin(row, draw(seed, 5) << 32 | draw(seed, 6))

    def _begin(self, row: int, seed: int) -> None:
        self._matches[row] = (seed, 0, [-1] * SEATS, [0] * SEATS, 0)
        self._show(row)

    def _show(self, row: int) -> None:
        match = self._matches[row]
        seed, step = int(match["seed"]), int(match["step"])
        self.to_act[row] = movers(seed, step, self._options.alternating)
        for seat in range(SEATS):
            halves = [
                [self.to_act[row, who], match["step"], match["last"][who], match["points"][who]]
                for who in (seat, 1 - seat)
            ]
            self.obs[row, seat] = np.concatenate(halves)
            self.mask[row, seat] = np.arange(NUM_ACTIONS) != match["last"][seat]

    def get_state(self) -> bytes:
        """See `MatchBatch.get_state`."""
        self._matches["controllers"] = self.controllers
        return b"relay" + self._matches.tobytes()

    def set_state(self, state: bytes) -> None:
        """See `MatchBatch.set_state`."""
        if state[:5] != b"relay" or len(state) != 5 + MATCH.itemsize * self.num_rows:
            raise ValueError("not a state of this batch")
        self._matches[:] = np.frombuffer(state[5:], MATCH)
        self.controllers[:] = self._matches["controllers"]
        for row in range(self.num_rows):
            self._show(row)

    def regroup(self, states: Sequence[bytes], num_rows: Sequence[int]) -> list[bytes]:
        """See `Regrouping.regroup`."""
        if any(state[:5] != b"relay" or (len(state) - 5) % MATCH.itemsize for state in states):
            raise ValueError("not a state of this game")
        rows = b"".join(state[5:] for state in states)
        if len(rows) != MATCH.itemsize * sum(num_rows):
            raise ValueError("other rows")
        parts = np.split(np.frombuffer(rows, MATCH), np.cumsum(num_rows)[:-1])
        return [b"relay" + part.tobytes() for part in parts]
