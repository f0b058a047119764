"""What every peer shares: the game as it sees it, the sizes of a comparison, and the measurement that it hands back.

Only numpy and the games are imported here, so that a peer may live in an environment of its own that lacks the rest
of league's dependencies.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs import registry
from league.types import EXTERNAL, SEATS, BoolArray, FloatArray

BOT = "based"
"""Who plays the other seat of every row: a native bot, so that all sides run the same nets."""
REWARDS = {"damage_dealt": 2.0, "damage_taken": -1.0, "knock_out": 2.0, "stock_lost": -2.0, "win": 1.0}
"""Weights of the peers' reward; any would do, since only speed is measured."""
EMBEDDING = 256
"""Features of the embedded observation, in every network."""
HEADS = (96, 96)
"""Hidden features of the actor's and of the critic's head, in every network."""


@dataclass(frozen=True)
class Size:
    """What both sides of a comparison have in common."""

    lstm: int
    """Features of the LSTM."""
    rows: int
    """Matches side by side."""
    steps: int
    """Decisions of each row in a rollout."""
    minibatches: int
    """Splits of a rollout, where the peer's own stack does not prescribe the minibatch."""
    ticks: int = 3
    """Game ticks a decision."""
    history: int = 0
    """Frames of the opponent's past that a Transformer reads, one a decision; 0 has no Transformer."""
    layers: int = 6
    """Layers of that Transformer: 8 heads, 256 wide, 1,024 in its feed-forward part, 8 latents."""


@dataclass(frozen=True)
class Speed:
    """How fast one peer was at one size: whole windows after a warm-up, slow moments included."""

    parameters: int
    play: float | None
    """Steps of play a second; None where the peer does not tell play and learning apart."""
    learn: float | None
    """Samples a second in learning; a sample counts once an epoch. None as above."""
    play_steps: int
    """Steps that play was measured over, without the warm-up."""
    learn_samples: int
    """Samples that learning was measured over, without the warm-up."""
    minibatch: int
    """Samples of an optimiser's step."""
    train_one_epoch: float | None = None
    """Steps a second of play and one pass of learning in turn, where they are not told apart."""
    beside: float = 0.0
    """Seconds a step that the loop spends on neither: snapshots, the store, reports."""

    def train(self, epochs: int) -> float | None:
        """Steps a second of play, `epochs` passes of learning and the rest in turn; None where not measured."""
        if self.play is None or self.learn is None:
            return self.train_one_epoch if epochs == 1 else None
        return 1 / (1 / self.play + epochs / self.learn + self.beside)


def fuse(optimizer: Any) -> None:
    """Lets torch's Adam go over all weights in one compiled pass, as league's does, in place of an operator each."""
    for group in optimizer.param_groups:
        group |= {"fused": True, "foreach": False}


def rate(durations: Sequence[float], count: int) -> float:
    """`count` things a second, from the durations in seconds of that many each."""
    return count / statistics.fmean(durations)


class BrawlRows:
    """Brawl against `BOT`: the learner sits in seat 0 of even rows and seat 1 of odd ones. No Python loop over rows.

    A match that ends is restarted in the same step. The peers have no place for action masks, so they have none here;
    the game ignores keys that can do nothing.
    """

    def __init__(self, size: Size, threads: int) -> None:
        self.batch = registry.make("brawl", rows=size.rows, threads=threads, options={"ticks_per_step": size.ticks})
        self.rows = np.arange(size.rows)
        self.seats = self.rows % SEATS
        spec = self.batch.spec
        self.weights = np.array([REWARDS.get(term, 0.0) for term in spec.reward_terms], np.float32)
        self.batch.controllers[self.rows, self.seats] = EXTERNAL
        self.batch.controllers[self.rows, 1 - self.seats] = spec.bots.index(BOT)
        self.batch.reset(0)

    def obs(self) -> FloatArray:
        """A copy of what the learner's seats see (rows, obs_size)."""
        return self.batch.obs[self.rows, self.seats]

    def final_obs(self, row: int) -> FloatArray:
        """What the learner saw last (obs_size,) in the match that `row` just ended."""
        seen: FloatArray = self.batch.final_obs[row, self.seats[row]].copy()
        return seen

    def step(self, actions: npt.NDArray[np.integer]) -> tuple[FloatArray, BoolArray, BoolArray]:
        """Plays `actions` (rows, keys); reward, terminated and truncated, each (rows,)."""
        self.batch.actions[self.rows, self.seats] = actions
        self.batch.step()
        reward = self.batch.reward_terms[self.rows, self.seats] @ self.weights
        return reward, self.batch.terminated.copy(), self.batch.truncated.copy()
