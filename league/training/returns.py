"""Advantages from rewards and values, and the size of returns. Pure functions of (T, B) arrays; their references are in
the tests."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.types import Rollout

MEMORY = 100
"""Updates after which the running size of returns has mostly forgotten an update. Up to there each counts alike, so
that the first updates decide nothing for long; a longer mean would lag behind an agent whose returns grow tenfold."""


@dataclass(frozen=True)
class ReturnSize:
    """The running size of discounted returns: their root mean square over training's decisions.

    The learner divides rewards by it, so its values are in these units. Of each decision counts the whole return of its
    match, however many rollouts that takes: a reward is credited, as it comes, to all decisions of the match before it.
    The mean square, not the variance, since constant returns have a size, too.
    """

    mean_square: float = 0.0
    updates: int = 0
    """Updates since the first reward."""
    credit: Tensor | None = None
    """(2, B) float64: of each row's match in play, over its decisions s up to now t, the sums of gamma^(t-s) G_s, where
    G_s is their return so far, and of gamma^(2 (t-s)). None: no rollout yet."""

    @property
    def size(self) -> float:
        """What rewards are divided by; 1 until there was a reward."""
        return math.sqrt(self.mean_square) if self.mean_square else 1.0

    def after(self, rollout: Rollout, gamma: float) -> ReturnSize:
        """The size once the rewards of one more rollout are known."""
        reward, ends, is_first = (
            torch.stack([x.to(torch.float32) for x in (rollout.reward, rollout.ends, rollout.is_first)])
            .cpu()
            .double()
            .numpy()
            .reshape(3, len(rollout.reward), rollout.segments, -1)
            .swapaxes(1, 2)
        )
        rows = reward.shape[-1]
        credit: npt.NDArray[np.float64] = np.zeros((2, rows))
        if self.credit is not None and self.credit.shape[1] == rows:
            credit = self.credit.numpy().copy()
        decay, gained = np.array([[gamma], [gamma**2]]), 0.0
        for paid, end, first in zip(*(x.reshape(-1, rows) for x in (reward, ends, is_first)), strict=True):
            credit *= decay * (1 - first)
            credit[1] += 1
            gained += float((paid * (2 * credit[0] + paid * credit[1])).sum())
            credit[0] += paid * credit[1]
            credit *= 1 - end
        if not self.updates and not gained:
            return ReturnSize(credit=torch.from_numpy(credit))
        updates = self.updates + 1
        share = 1 / min(updates, MEMORY)
        # What a rollout adds to squares of returns that began before it may be negative: then it counts as nothing.
        mean_square = (1 - share) * self.mean_square + share * max(0.0, gained / reward.size)
        return ReturnSize(mean_square, updates, torch.from_numpy(credit))

    def state_dict(self) -> dict[str, Any]:
        """Plain values and a tensor; `ReturnSize(**state)` is the inverse."""
        return asdict(self)


def gae(rewards: Tensor, values: Tensor, next_values: Tensor, ends: Tensor, *, gamma: float, lam: float) -> Tensor:
    """Generalised advantage estimates (Schulman et al. 2016, arXiv:1506.02438, eq. 16), shape (T, B).

    A_t = delta_t + gamma lam A_{t+1} (0 past an end),  delta_t = r_t + gamma V'_t - V_t.

    Args:
        rewards: (T, B) float, of the step taken.
        values: (T, B), of the state acted in.
        next_values: (T, B), of the state reached, before any reset; 0 where the match terminated. A truncated match
            and the rollout's end are bootstrapped by what stands here.
        ends: (T, B) bool, terminated or truncated; the sum of later errors stops here.
        gamma: discount a step.
        lam: lambda, 0 one-step, 1 Monte Carlo.

    Raises:
        ValueError: the shapes differ.
    """
    if not rewards.shape == values.shape == next_values.shape == ends.shape:
        raise ValueError(
            f"rewards {tuple(rewards.shape)}, values {tuple(values.shape)}, next_values {tuple(next_values.shape)} and"
            f" ends {tuple(ends.shape)} must have one shape (T, B)"
        )
    delta = rewards + gamma * next_values - values
    decay = gamma * lam * (~ends).to(delta.dtype)
    advantages = torch.empty_like(delta)
    later = torch.zeros_like(delta[0])
    for t in range(len(delta) - 1, -1, -1):
        later = delta[t] + decay[t] * later
        advantages[t] = later
    return advantages
