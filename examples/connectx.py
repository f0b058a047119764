"""The fast double of Kaggle's ConnectX: `connect4_numpy.py` in the view of `kaggle:connectx`, with its bot `negamax`.

    league train --env examples/connectx.py --config examples/connectx.toml

What it trains is for Kaggle's game to begin with (docs/guides/kaggle.md): both show and take the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import connect4_numpy as four
import numpy as np
import numpy.typing as npt

from league.envs.arrays import UInts, streams, uniform
from league.types import SEATS, ActionSpec, GameSpec

Options = four.Options
CELLS = four.CELLS.reshape(four.COLUMNS, four.HEIGHT).T[::-1].ravel()
"""From the upper left, row by row, as Kaggle numbers them."""
BOARD, BOTTOM = four.FULL.sum(), four.BOTTOMS.sum()
UPPER = BOARD & ~(BOTTOM | BOTTOM << np.uint64(1))
"""Without the two lowest rows."""
ONE, SIDE = np.uint64(1), np.uint64(7)
NEGAMAX, DEPTH = "negamax", 4
DEFAULTS = {
    "agent": {"opponent_encoder": False},
    "learner": {"gamma": 1.0, "gae_lambda": 0.9},
    "pool": {"mix": {"self_play": 0.6, "bot:negamax": 0.25, "bot:greedy": 0.1, "bot:slips": 0.05}},
    "rewards": {"win": 1.0},
}


def spec(options: Options) -> GameSpec:
    """That of `connect4_numpy.py`, but for what is seen."""
    return replace(
        four.spec(options),
        name="connectx-double",
        obs_size=5 * len(CELLS),
        opponent_slice=(0, 0),
        action=ActionSpec("multi_discrete", (four.COLUMNS,)),
        bots=(*four.BOTS, NEGAMAX),
    )


def make(rows: int, threads: int, options: Options) -> Batch:
    """`rows` matches."""
    return Batch(rows, spec(options), options)


def completing(board: UInts, taken: UInts) -> UInts:
    """The empty cells with which a board has four in a line."""
    found = np.zeros_like(board)
    for step in four.LINES:
        below, above = board << step, board >> step
        two_below, two_above = below & board << 2 * step, above & board >> 2 * step
        found |= two_below & (board << 3 * step | above) | two_above & (board >> 3 * step | below)
    return found & BOARD & ~taken


def columns_of(cells: UInts) -> UInts:
    """(..., 7): those of each column."""
    return cells[..., None] & four.FULL


def value(own: UInts, other: UInts, men: npt.NDArray[Any], depth: int) -> npt.NDArray[np.float64]:
    """What Kaggle's negamax takes boards for, on which `men` lie and `own` is to move."""
    landing = (own | other) + BOTTOM & BOARD
    won = (len(CELLS) + 1 - men) / 2
    if depth:
        score = values(own, other, men, depth).max(-1)
    else:
        left, right, below = landing & own << SIDE, landing & own >> SIDE, landing & own << ONE & UPPER
        two = left & right | (left | right) & below
        score = won + ((left | right | below) != 0) + (two != 0) + (left & right & below != 0)
    return np.where(completing(own, own | other) & landing != 0, won, np.where(landing != 0, score, 0.0))


def values(own: UInts, other: UInts, men: npt.NDArray[Any], depth: int) -> npt.NDArray[np.float64]:
    """(..., 7): the same of each move; -inf of one that cannot be."""
    cells = columns_of((own | other) + BOTTOM & BOARD)
    after = value(np.broadcast_to(other[..., None], cells.shape), own[..., None] | cells, men[..., None] + 1, depth - 1)
    return np.where(cells != 0, -after, -np.inf)


class Batch(four.Batch):
    """It shows own cells, the other's, the next one of each column, and those that complete a line of either."""

    def _look(self, boards: UInts) -> None:
        taken = boards.sum(-1)[:, None]
        landing, ends = np.broadcast_to(taken + BOTTOM & BOARD, boards.shape), completing(boards, taken)
        seen = np.stack([boards, boards[:, ::-1], landing, ends, ends[:, ::-1]], -1)
        self.obs[:] = (seen[..., None] >> CELLS & ONE).reshape(self.num_rows, SEATS, -1)

    def _bot_moves(self, rows: npt.NDArray[np.int64], who: npt.NDArray[np.int16]) -> npt.NDArray[np.int64]:
        """As `connect4_numpy.py`'s, and Kaggle's negamax: the first column that wins, else the best one.

        Of several best ones each is taken in place of the one before where its coin says so.
        """
        column = super()._bot_moves(rows, who)
        own_rows = np.flatnonzero(who == self.spec.bots.index(NEGAMAX))
        match = self.match[rows[own_rows]]
        own, other = (match["boards"][np.arange(len(match)), seat] for seat in (match["to_move"], 1 - match["to_move"]))
        taken = own | other
        wins = columns_of(completing(own, taken) & taken + BOTTOM) != 0
        scores = values(own, other, match["moves"].astype(np.int64), DEPTH)
        coins = uniform(streams(match["seed"], four.COLUMNS), match["moves"][:, None]) < 0.5
        best = scores == scores.max(-1, keepdims=True)
        best = np.where((best & coins).any(-1, keepdims=True), best & coins, best & (best.cumsum(-1) == 1))
        last = four.COLUMNS - 1 - best[:, ::-1].argmax(-1)
        column[own_rows] = np.where(wins.any(-1), wins.argmax(-1), last)
        return column
