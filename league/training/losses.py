"""PPO's loss. Pure functions; the slow twin is in the tests."""

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


@dataclass(frozen=True)
class PPOLoss:
    """The loss to minimise and its parts, all scalars (0-d tensors)."""

    total: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    approx_kl: Tensor
    """Estimate k3 of KL(old || new) (Schulman, "Approximating KL divergence", 2020), in nats."""
    clip_share: Tensor
    """Share of samples whose ratio left [1 - clip, 1 + clip]."""


def ppo(
    new: EvaluatedActions,
    old_log_prob: Tensor,
    advantage: Tensor,
    target: Tensor,
    *,
    clip: float,
    value_coefficient: float,
    entropy_coefficient: float,
) -> PPOLoss:
    """Clipped surrogate loss (Schulman et al. 2017, arXiv:1707.06347, eq. 7 and 9). All arrays of one shape.

    total = -mean(min(ratio A, clip(ratio) A)) + value_coefficient mean((V - target)^2) - entropy_coefficient mean(S)
    """
    log_ratio = new.log_prob - old_log_prob
    ratio = log_ratio.exp()
    surrogate = torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    policy_loss = -surrogate.mean()
    value_loss = (new.value - target).square().mean()
    mean_entropy = new.entropy.mean()
    with torch.no_grad():
        approx_kl = (ratio - 1 - log_ratio).mean()
        clip_share = ((ratio - 1).abs() > clip).float().mean()
    total = policy_loss + value_coefficient * value_loss - entropy_coefficient * mean_entropy
    return PPOLoss(total, policy_loss, value_loss, mean_entropy, approx_kl, clip_share)
