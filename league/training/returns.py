"""Advantages from rewards and values. Pure functions on (T, B) tensors; the slow twins are in the tests."""

import torch
from torch import Tensor


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
