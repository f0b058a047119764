"""Connect Four as a NumPy batch: every line steps all matches. `connect4.py` has the same rules, one match at a time.

    league train --env examples/connect4_numpy.py --preset heavy

A board is 49 bits: cell (x, y) is bit 7 x + y, and the seventh of a column is always empty, so that a shift by 1, 6, 7
or 8 goes to the next cell of a line and never around the edge. Who begins is drawn by the match's seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from league.envs.arrays import ArrayBatch, Rows, UInts, mix64, streams, uniform
from league.types import DRAW, SEATS, ActionSpec, BoolArray, GameSpec

COLUMNS, HEIGHT = 7, 6
CELLS = np.array([7 * x + y for x in range(COLUMNS) for y in range(HEIGHT)], np.uint64)
BOTTOMS = np.uint64(1) << np.arange(0, 49, 7, dtype=np.uint64)
FULL = np.uint64(0b111111) * BOTTOMS
LINES = np.array([1, 6, 7, 8], np.uint64)
BOTS = ("random", "greedy", "slips")
MATCH = np.dtype([("seed", np.uint64), ("boards", np.uint64, (SEATS,)), ("to_move", np.int8), ("moves", np.int8)])

DEFAULTS = {
    "agent": {
        "opponent_encoder": False,
        "observation_width": 256,
        "lstm_size": 128,
        "head_sizes": [128],
    },
    "learner": {"learning_rate": 1.5e-3, "gamma": 1.0, "gae_lambda": 0.8, "entropy_coefficient": 0.02},
    "pool": {"mix": {"self_play": 0.5, "bot:greedy": 0.5}},
    "rewards": {"win": 1.0},
}


class Options(BaseModel):
    """Which bots there are."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    slip: float = Field(default=0.1, ge=0.0, le=1.0)
    """How often the bot `slips` moves at random instead of winning or blocking."""


def spec(options: Options) -> GameSpec:
    """Own and the opponent's men, cell by cell."""
    del options
    return GameSpec(
        name="connect4-numpy",
        version=1,
        obs_size=2 * len(CELLS),
        opponent_slice=(len(CELLS), 2 * len(CELLS)),
        obs_range=(0.0, 1.0),
        action=ActionSpec("discrete", (COLUMNS,)),
        reward_terms=("win",),
        metrics=("men",),
        end_reasons=("four", "full"),
        bots=BOTS,
        tick_rate=1.0,
        anchor="greedy",
        floor="random",
    )


def make(rows: int, threads: int, options: Options) -> Batch:
    """`rows` matches; `threads` is not needed, as one call steps them all."""
    del threads
    return Batch(rows, spec(options), options)


def drop(taken: UInts, column: npt.NDArray[Any]) -> UInts:
    """The cell that a man falls to in `column` of boards on which `taken` cells are full."""
    return (taken + BOTTOMS[column]) & FULL[column]


def has_four(board: UInts) -> npt.NDArray[np.bool_]:
    """Whether four men of one board are in a line."""
    pairs = board[..., None] & board[..., None] >> LINES
    return (pairs & pairs >> np.uint64(2) * LINES).any(-1)


class Batch(ArrayBatch):
    """Its matches; `ArrayBatch` has the arrays, resets and states."""

    in_turns = True

    def __init__(self, rows: int, spec: GameSpec, options: Options) -> None:
        self._options = options
        super().__init__(spec, rows, MATCH, options)

    def step(self) -> None:
        """One move of every match that is not held.

        Raises:
            ValueError: an action, or a bot's id, that the game does not have; nothing has moved.
        """
        rows = np.flatnonzero(~self.held)
        match, seat = self.match, self.match["to_move"]
        column = self._choose(rows)
        mine = match["boards"][rows, seat[rows]]
        mine |= drop(match["boards"][rows].sum(-1), column)
        match["boards"][rows, seat[rows]] = mine
        match["moves"][rows] += 1
        is_won, is_full = has_four(mine), match["moves"][rows] == len(CELLS)
        self.reward_terms[:] = 0.0
        self.terminated[:] = False
        ended = rows[is_won | is_full]
        winners = rows[is_won]
        self.reward_terms[winners, seat[winners], 0] = 1.0
        self.reward_terms[winners, 1 - seat[winners], 0] = -1.0
        self.terminated[ended] = True
        winner = np.where(has_four(match["boards"][ended, seat[ended]]), seat[ended], DRAW)
        match["to_move"][rows] = 1 - seat[rows]
        self.show()
        if len(ended):
            men = (match["moves"][ended, None] + np.array([1, 0])) // 2  # of who began and of the other
            began = (match["to_move"][ended] + match["moves"][ended]) % 2
            self.finish(
                ended,
                winner=winner,
                end_reason=winner == DRAW,
                ticks=match["moves"][ended],
                metrics=np.where(began[:, None] == 0, men, men[:, ::-1])[:, :, None],
            )
            self.show()

    def begin(self, rows: Rows, seeds: UInts) -> None:
        """Who begins follows from the seed."""
        fresh = np.zeros(len(rows), MATCH)
        fresh["seed"] = seeds
        fresh["to_move"] = mix64(seeds) & np.uint64(1)
        self.match[rows] = fresh

    def show(self) -> None:
        """The boards to both seats, and the columns that are not full to the one that is to move."""
        match = self.match
        self._look(match["boards"])
        self.to_act[:] = match["to_move"][:, None] == np.arange(SEATS)
        is_open = drop(match["boards"].sum(-1)[:, None], np.arange(COLUMNS)) != 0
        self.mask[:] = is_open[:, None] | ~self.to_act[:, :, None]

    def possible(self, match: npt.NDArray[Any]) -> dict[str, BoolArray]:
        """Of each field, whether a match can have its values."""
        first, second = match["boards"].T
        taken = first | second
        men = (match["boards"][..., None] >> CELLS & np.uint64(1)).sum((1, 2))
        return {
            "boards": (first & second == 0)
            & (taken & ~FULL.sum() == 0)
            & (taken + BOTTOMS.sum() & taken == 0)  # no man hangs in the air
            & ~has_four(match["boards"]).any(-1),
            "moves": (match["moves"] == men) & (men < len(CELLS)),
            "to_move": (match["to_move"] == 0) | (match["to_move"] == 1),
        }

    def _look(self, boards: UInts) -> None:
        cells = (boards[:, :, None] >> CELLS & np.uint64(1)).astype(np.float32)
        self.obs[:, 0] = cells.reshape(self.num_rows, -1)
        self.obs[:, 1] = cells[:, ::-1].reshape(self.num_rows, -1)

    def _choose(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The columns of `rows`: the engine's, or the bot's. One that is full counts as the first that is not."""
        seat = self.match["to_move"][rows]
        column, who = self.actions[rows, seat, 0].astype(np.int64), self.controllers[rows, seat]
        by_bot = np.flatnonzero(~self.by_engine()[rows, seat])
        if len(by_bot):
            column[by_bot] = self._bot_moves(rows[by_bot], who[by_bot])
        if ((column < 0) | (column >= COLUMNS)).any():
            raise ValueError(f"an action is outside 0 to {COLUMNS - 1}")
        is_open = self.mask[rows, seat]
        column = np.where(is_open[np.arange(len(rows)), column], column, is_open.argmax(-1))
        self.actions[rows[by_bot], seat[by_bot], 0] = column[by_bot]
        return column

    def _bot_moves(self, rows: npt.NDArray[np.int64], who: npt.NDArray[np.int16]) -> npt.NDArray[np.int64]:
        """A winning column, else one that keeps the other from winning, else any open one; `random` takes any."""
        match = self.match[rows]
        choice, slip = uniform(streams(match["seed"], 2), match["moves"][:, None]).T
        seat, every = match["to_move"], np.arange(COLUMNS)
        is_open = self.mask[rows, seat]
        index = np.floor(choice * is_open.sum(-1)).astype(np.int64)
        column = (is_open.cumsum(-1) > index[:, None]).argmax(-1)
        cells = drop(match["boards"].sum(-1)[:, None], every)
        looks = np.where(who == BOTS.index("slips"), slip >= self._options.slip, who == BOTS.index("greedy"))
        for side in (1 - seat, seat):
            board = match["boards"][np.arange(len(rows)), side]
            wins = has_four(board[:, None] | cells) & is_open
            column = np.where(looks & wins.any(-1), wins.argmax(-1), column)
        return column
