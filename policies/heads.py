"""Action heads: logits to actions, log-probabilities and entropies, under a mask of what is legal now.

A head has no parameters. `logits` (..., num_logits) come from the network; `mask` (..., M) bool or
None; `action` (..., A) int64.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from league.types import ActionSpec

ILLEGAL = -1e9
"""The logit of a choice that is not legal: its probability is exactly 0 in float32."""


class ActionHead(Protocol):
    """What both heads offer."""

    def sample(
        self, logits: Tensor, mask: Tensor | None, *, generator: torch.Generator | None, greedy: bool
    ) -> tuple[Tensor, Tensor]:
        """(action (..., A), log_prob (...,)): drawn from the distribution, or its mode when `greedy`."""

    def evaluate(self, logits: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """(log_prob (...,), entropy (...,)) of a stored action, in nats."""


def _precise(logits: Tensor) -> Tensor:
    """Logits of reduced precision as float32: probabilities are never computed in bf16."""
    return logits if logits.dtype == torch.float64 else logits.float()


class KeysHead:
    """Independent keys (`multi_binary`): one Bernoulli each. An illegal key is never pressed and counts for nothing."""

    def sample(
        self, logits: Tensor, mask: Tensor | None, *, generator: torch.Generator | None, greedy: bool
    ) -> tuple[Tensor, Tensor]:
        """See `ActionHead.sample`."""
        logits = _precise(logits)
        if greedy:
            pressed = logits > 0
        else:
            uniform = torch.rand(logits.shape, generator=generator, device=logits.device)
            pressed = uniform < torch.sigmoid(logits)
        if mask is not None:
            pressed = pressed & mask
        action = pressed.long()
        return action, _over_keys(action * logits - F.softplus(logits), mask)

    def evaluate(self, logits: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """See `ActionHead.evaluate`."""
        logits = _precise(logits)
        surprise = F.softplus(logits)  # -log of the probability that the key is not pressed
        entropy = surprise - logits * torch.sigmoid(logits)
        return _over_keys(action * logits - surprise, mask), _over_keys(entropy, mask)


def _over_keys(values: Tensor, mask: Tensor | None) -> Tensor:
    """The sum over the keys (..., A) that are legal."""
    return (values if mask is None else values * mask).sum(-1)


class ChoicesHead:
    """Categorical choices (`multi_discrete`), one a part; an illegal choice has probability 0."""

    def __init__(self, choices: tuple[int, ...]) -> None:
        self.choices = list(choices)

    def sample(
        self, logits: Tensor, mask: Tensor | None, *, generator: torch.Generator | None, greedy: bool
    ) -> tuple[Tensor, Tensor]:
        """See `ActionHead.sample`; drawn by the Gumbel-max trick."""
        actions, log_probs = [], []
        for log_p in self._log_softmax(logits, mask):
            scores = log_p
            if not greedy:
                uniform = torch.rand(log_p.shape, generator=generator, device=log_p.device)
                scores = log_p - torch.log(-torch.log(uniform.clamp(1e-20, 1 - 1e-7)))
            choice = scores.argmax(-1, keepdim=True)
            actions.append(choice)
            log_probs.append(log_p.gather(-1, choice))
        return torch.cat(actions, -1), torch.cat(log_probs, -1).sum(-1)

    def evaluate(self, logits: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """See `ActionHead.evaluate`."""
        parts = self._log_softmax(logits, mask)
        log_probs = [p.gather(-1, action[..., i : i + 1]) for i, p in enumerate(parts)]
        entropies = [-(p.exp() * p).sum(-1, keepdim=True) for p in parts]
        return torch.cat(log_probs, -1).sum(-1), torch.cat(entropies, -1).sum(-1)

    def _log_softmax(self, logits: Tensor, mask: Tensor | None) -> list[Tensor]:
        logits = _precise(logits)
        if mask is not None:
            logits = logits.masked_fill(~mask, ILLEGAL)
        return [part.log_softmax(-1) for part in torch.split(logits, self.choices, -1)]


def make_head(spec: ActionSpec) -> ActionHead:
    """The head of an action spec."""
    return KeysHead() if spec.kind == "multi_binary" else ChoicesHead(spec.choices)
