"""What a minibatch is made of, picked from a rollout."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from league.types import PolicyState, Rollout, Watched


@dataclass(frozen=True)
class Minibatch:
    """Whole rows of a rollout: n of them, T steps each."""

    obs: Tensor  # (n, T, obs_size)
    action: Tensor  # (n, T, A)
    is_first: Tensor  # (n, T)
    mask: Tensor | None  # (n, T, M)
    figures: Tensor  # (3, n, T): log-probabilities in play, advantages, value targets
    state: PolicyState
    watched: Watched | None

    def tensors(self) -> list[Tensor]:
        """All of it, in an order that its shape determines."""
        known = [self.obs, self.action, self.is_first, self.figures, *self.state.tensors().values()]
        known += [] if self.mask is None else [self.mask]
        return known + ([] if self.watched is None else [self.watched.obs, self.watched.before])

    @property
    def shape(self) -> tuple[torch.Size | None, ...]:
        """Minibatches of one shape are the same work."""
        lengths = None if self.watched is None else self.watched.before.shape
        return self.obs.shape, None if self.mask is None else self.mask.shape, lengths


class UpdateData:
    """What an update learns from.

    Args:
        rollout: as it was played.
        advantages, targets: (T, B), of the policy and of the value.
    """

    def __init__(self, rollout: Rollout, advantages: Tensor, targets: Tensor) -> None:
        self.rollout = rollout
        self._figures = torch.stack([rollout.log_prob, advantages, targets])
        begins = rollout.is_first[1:].sum(0)
        most = int(begins.max()) if begins.numel() else 0
        self.most_begins = 0 if not most else min(1 << (most - 1).bit_length(), len(rollout.is_first) - 1)
        """Of no row more matches begin after its first step; seldom another number than in the update before."""

    def pick(self, rows: Tensor) -> Minibatch:
        """`rows` (n,) of it."""
        rollout = self.rollout

        def by_row(x: Tensor) -> Tensor:
            return x.index_select(1, rows).transpose(0, 1)

        return Minibatch(
            by_row(rollout.obs),
            by_row(rollout.action),
            by_row(rollout.is_first),
            None if rollout.mask is None else by_row(rollout.mask),
            self._figures.index_select(2, rows).transpose(1, 2),
            rollout.state.select(rows),
            None if rollout.watched is None else rollout.watched.select(rows),
        )
