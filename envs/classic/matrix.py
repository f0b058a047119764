"""A repeated two-seat matrix game, zero-sum, with any payoff matrix: rock-paper-scissors unless told otherwise.

Numpy only, every match at once. A bot's draw in a round depends on its seat's stream and the round alone, so an
exchanged match draws the same numbers for the exchanged bots.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from league.envs.arrays import ArrayBatch, Rows, UInts, streams, uniform
from league.envs.classic import drawings
from league.envs.drawing import Drawing
from league.types import DRAW, SEATS, ActionSpec, BoolArray, GameSpec, GameTree, Utility

BOTS = ("constant", "random", "biased")
CONSTANT, RANDOM, BIASED = range(len(BOTS))

MATCH = np.dtype(
    [
        ("seed", np.uint64),
        ("round", np.int32),  # rounds played
        ("streams", np.uint64, (SEATS,)),  # each seat's random numbers
        ("last", np.int32, (SEATS,)),  # action of the last round, or NO_ACTION
        ("payoff", np.float64, (SEATS,)),  # sum so far
        ("first", np.int32, (SEATS,)),  # rounds in which action 0 was played
    ]
)
"""One match."""
NO_ACTION = -1


MEANINGS = {
    "bots": {
        "constant": "always its first action",
        "random": "any action, each as likely",
        "biased": "draws its actions by env.bot_mix",
    }
}
ABOUT = "A matrix game in rounds, such as rock, paper, scissors."


class Options(BaseModel):
    """What changes the game."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )

    payoff: list[list[float]] = [[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]]
    """Seat 0's payoff for (its action, seat 1's action); seat 1 gets the negative."""
    rounds: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    """Rounds of a match."""
    continuing: bool = False
    """Whether the last round is a cut from outside (truncated) instead of an end, and progress is hidden."""
    bot_mix: list[float] = [0.6, 0.2, 0.2]
    """Probability of each action of the bot `biased`."""

    @model_validator(mode="after")
    def _fits(self) -> Options:
        size = len(self.payoff)
        widths = sorted({len(row) for row in self.payoff})
        if size < 2 or widths != [size]:
            raise ValueError(
                f"env.payoff has {size} rows of {widths} entries; it must be square and at least 2 x 2, "
                f"so that both seats have the same actions; give as many rows as columns"
            )
        total = sum(self.bot_mix)
        if len(self.bot_mix) != size or min(self.bot_mix) < 0 or abs(total - 1) > 1e-6:
            raise ValueError(
                f"env.bot_mix={self.bot_mix} must be one probability for each of the {size} actions of env.payoff, "
                f"together 1 (now {total:g}); set it with --set env.bot_mix={[round(1 / size, 3)] * size}"
            )
        return self


def spec(options: Options) -> GameSpec:
    """The game's figures: n actions, 2 (n + 1) observed numbers.

    Each half of the observation is the last action (one-hot, zero before the first round) and the share of the
    rounds that is played (zero where `continuing`); first the seat's own half, then the opponent's.
    """
    size = len(options.payoff)
    return GameSpec(
        name="matrix",
        version=1,
        obs_size=2 * (size + 1),
        opponent_slice=(size + 1, 2 * (size + 1)),
        obs_range=(0.0, 1.0),
        action=ActionSpec("multi_discrete", (size,)),
        reward_terms=("payoff", "win"),
        metrics=("payoff", "first_action_share"),
        end_reasons=("rounds", "cut"),
        bots=BOTS,
        tick_rate=1.0,
        floor="random",
        imperfect_information=True,
        utility=Utility("payoff", options.rounds * float(np.abs(options.payoff).max()) or None),
    )


def make(rows: int, threads: int, options: Options) -> MatrixBatch:
    """`rows` matches; `threads` is not needed, as one call steps them all."""
    del threads
    return MatrixBatch(rows, options)


def drawing(batch: MatrixBatch, row: int, seat: int | None = None) -> Drawing:
    """A row as it stands, as shapes; nothing is hidden from a seat."""
    return drawings.matrix(batch, row)


def tree(options: Options) -> GameTree:
    """One round as a tree; seat 0 chooses first, seat 1 without seeing it.

    Raises:
        ValueError: `rounds` is more than 1 (what is remembered of earlier rounds would make the tree very large).
    """
    if options.rounds != 1:
        raise ValueError(f"env.rounds={options.rounds}: the tree is of one round; --set env.rounds=1")
    payoff = np.array(options.payoff, np.float64)
    size = len(payoff)
    mine, theirs = (x.ravel() for x in np.indices(payoff.shape))
    num_nodes = 1 + size + size * size
    leaves = np.arange(num_nodes) > size
    infoset = np.where(leaves, -1, 1)
    infoset[0] = 0
    return GameTree(
        parent=np.concatenate([[-1], np.zeros(size, np.int64), 1 + mine]),
        action=np.concatenate([[-1], np.arange(size), theirs]),
        player=infoset,
        infoset=infoset,
        chance=np.ones(num_nodes),
        payoff=np.concatenate([np.zeros(1 + size), payoff.ravel()]),
        legal=np.ones((2, size), np.bool_),
        obs=np.zeros((2, 1, spec(options).obs_size), np.float32),
        length=np.ones(2, np.int64),
    )


class MatrixBatch(ArrayBatch):
    """The matrix game's matches."""

    has_mask = False

    def __init__(self, rows: int, options: Options) -> None:
        self._options = options
        self._payoff = np.array(options.payoff, dtype=np.float64)
        self._cumulative = np.cumsum(options.bot_mix)[:-1]
        super().__init__(spec(options), rows, MATCH, options)

    def step(self) -> None:
        """One round of every match.

        Raises:
            ValueError: an action, or a bot's id, that the game does not have.
        """
        match, action = self.match, self._choose()
        gain = self._payoff[action[:, 0], action[:, 1]]
        payoff = np.stack([gain, -gain], axis=1)
        match["payoff"] += payoff
        match["first"] += action == 0
        match["last"] = action
        match["round"] += 1

        ended = match["round"] >= self._options.rounds
        lead = np.sign(match["payoff"][:, 0]).astype(np.int8)
        self.reward_terms[:, :, 0] = payoff
        self.reward_terms[:, :, 1] = np.where(ended, lead, 0)[:, None] * np.array([1, -1])
        self.terminated[:] = ended & (not self._options.continuing)
        self.truncated[:] = ended & self._options.continuing
        self.show()
        if ended.any():
            self._finish(np.flatnonzero(ended), lead)
            self.show()

    def facts(self, row: int) -> dict[str, Any]:
        """What can be drawn of a row."""
        match = self.match[row]
        return {
            "payoff": self._payoff.tolist(),
            "last": match["last"].tolist(),
            "sums": match["payoff"].tolist(),
            "round": int(match["round"]),
            "rounds": self._options.rounds,
        }

    def begin(self, rows: Rows, seeds: UInts) -> None:
        """See `ArrayBatch.begin`."""
        fresh = np.zeros(len(rows), MATCH)
        fresh["seed"] = seeds
        fresh["streams"] = streams(seeds, SEATS)
        fresh["last"] = NO_ACTION
        self.match[rows] = fresh

    def show(self) -> None:
        """Writes (B, 2, 2 (n + 1)): own last action and progress, then the opponent's."""
        match, size = self.match, len(self._payoff)
        progress = 0.0 if self._options.continuing else match["round"] / self._options.rounds
        for seat in range(SEATS):
            for half, who in enumerate((seat, 1 - seat)):
                start = half * (size + 1)
                self.obs[:, seat, start : start + size] = match["last"][:, who, None] == np.arange(size)
                self.obs[:, seat, start + size] = progress

    def possible(self, match: npt.NDArray[Any]) -> dict[str, BoolArray]:
        """See `ArrayBatch.possible`."""
        rounds, last, first = match["round"], match["last"], match["first"]
        return {
            "round": (rounds >= 0) & (rounds < self._options.rounds),
            "last": (last >= NO_ACTION) & (last < len(self._payoff)),
            "payoff": np.isfinite(match["payoff"]),
            "first": (first >= 0) & (first <= rounds[:, None]),
        }

    def _choose(self) -> npt.NDArray[np.int32]:
        """The action of each seat (B, 2): the engine's, or the bot's."""
        size = len(self._payoff)
        by_engine = self.by_engine()
        given = self.actions[:, :, 0]
        if ((given < 0) | (given >= size))[by_engine].any():
            raise ValueError(f"an action is outside 0 to {size - 1}")
        unit = uniform(self.match["streams"], self.match["round"][:, None])
        action = np.select(
            [by_engine, self.controllers == RANDOM, self.controllers == BIASED],
            [given, np.floor(unit * size), np.searchsorted(self._cumulative, unit, side="right")],
            default=0,
        )
        self.actions[:, :, 0] = action
        return action.astype(np.int32)

    def _finish(self, rows: Rows, lead: npt.NDArray[np.int8]) -> None:
        match, lead = self.match[rows], lead[rows]
        self.finish(
            rows,
            winner=np.select([lead > 0, lead < 0], [0, 1], default=DRAW),
            end_reason=self.spec.end_reasons.index("cut" if self._options.continuing else "rounds"),
            ticks=match["round"],
            metrics=np.stack([match["payoff"], match["first"] / match["round"][:, None]], axis=2),
        )
