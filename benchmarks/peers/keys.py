"""Keys that are pressed or not, as PufferLib's `sample_logits` would have them if it had such actions."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def sample_keys(logits: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Draws from logits (n, keys), or looks at an action of as many numbers.

    Returns:
        The action drawn (n, keys), int32, or the one given; its log-probability (n,) and the entropy (n,), in nats.
    """
    pressed = logits.sigmoid()
    if action is None:
        action = (torch.rand_like(logits) < pressed).int()
    log_normaliser = functional.softplus(logits)
    log_prob = action.reshape(logits.shape) * logits - log_normaliser
    return action, log_prob.sum(1), (log_normaliser - logits * pressed).sum(1)
