"""PPO's loss and its gradient. Pure functions; the slow references are in the tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor


class EvaluatedActions(NamedTuple):
    """What the network as it is now says of actions that were played. All of one shape."""

    log_prob: Tensor
    entropy: Tensor
    """Of the distribution that the action was drawn from, in nats."""
    value: Tensor


class Scheduled(NamedTuple):
    """Figures that may change from update to update, 0-d tensors on the device: a CUDA graph reads them."""

    lowest: Tensor
    """1 - clip"""
    highest: Tensor
    """1 + clip"""
    entropy_coefficient: Tensor

    @classmethod
    def of(cls, clip: float, entropy_coefficient: float, like: Tensor) -> Scheduled:
        """Of these figures, in the type and on the device of `like`."""
        return cls(*like.new_tensor([1 - clip, 1 + clip, entropy_coefficient]).unbind())


@dataclass(frozen=True)
class PPOLoss:
    """The parts of the loss, all scalars (0-d tensors), means over the samples given, and the gradient of the whole."""

    policy: Tensor
    value: Tensor
    entropy: Tensor
    approx_kl: Tensor
    """Estimate k3 of KL(old || new) (Schulman, "Approximating KL divergence", 2020), in nats."""
    clip_share: Tensor
    """Share of samples whose ratio left [1 - clip, 1 + clip]."""
    gradient: EvaluatedActions
    """Of the loss to minimise by each log-probability, entropy and value."""


@torch.no_grad()
def ppo(
    new: EvaluatedActions,
    old_log_prob: Tensor,
    advantage: Tensor,
    target: Tensor,
    *,
    scheduled: Scheduled,
    value_coefficient: float,
    size: int | None = None,
) -> PPOLoss:
    """Clipped surrogate loss (Schulman et al. 2017, arXiv:1707.06347, eq. 7 and 9). All arrays of one shape.

    total = -mean(min(ratio A, clip(ratio) A)) + value_coefficient mean((V - target)^2) - entropy_coefficient mean(S)

    Its gradient is written out, which takes a fifth of the operators of autograd's and gives the same numbers.

    size: samples of the whole minibatch, where these are a part of it: the gradients of all parts then add up to that
        of the means over the whole.
    """
    size = size or advantage.numel()
    log_ratio = new.log_prob - old_log_prob
    ratio = log_ratio.exp()
    bounded, share = ratio.clamp(scheduled.lowest, scheduled.highest), advantage * (-1 / size)
    plain, clipped = share * ratio, share * bounded  # a sample's share of the loss
    error = new.value - target
    parts = [torch.max(plain, clipped), error.square(), new.entropy, ratio - 1 - log_ratio, ratio != bounded]
    policy, value, entropy, approx_kl, clip_share = torch.stack(parts).flatten(1).mean(1).unbind()
    gradient = EvaluatedActions(
        # Where the clipped one is more, the ratio does not count. What is no number times 0 is none still, and is seen.
        log_prob=plain * (plain >= clipped),
        entropy=(scheduled.entropy_coefficient / -size).expand(new.entropy.shape),
        value=error * (2 * value_coefficient / size),
    )
    return PPOLoss(policy * size, value, entropy, approx_kl, clip_share, gradient)
