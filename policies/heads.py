"""Action heads: logits to actions, log-probabilities and entropies, under a mask of what is legal now.

`logits` (..., num_logits) come from the network; `mask` (..., M) or None; `action` (..., A) is int64, or float32 where
`ActionSpec.dtype` is. The head of `legal_tuples` has parameters of its own and is given features instead of logits
(`league.policies.autoregressive`).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from league.policies.autoregressive import TuplesHead
from league.runtime.rows import draw_normal, draw_uniform
from league.types import ActionSpec

ILLEGAL = -1e9
"""The logit of a choice that is not legal: its probability is exactly 0 in float32."""


class ActionHead(Protocol):
    """What all heads offer."""

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
            uniform = draw_uniform(logits.shape, generator, logits.device)
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
    """Categorical choices (`multi_discrete`, `discrete`), one a part; an illegal choice has probability 0."""

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
                uniform = draw_uniform(log_p.shape, generator, log_p.device)
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


class _Figures(NamedTuple):
    """What a `BoxHead` computes with, on one device."""

    low: Tensor  # (A,)
    high: Tensor  # (A,)
    nodes: Tensor  # (Q,), of a standard normal
    weights: Tensor  # (Q,), of these


class BoxHead:
    """Real numbers within bounds (`box`): each a Gaussian squashed by tanh and scaled to its bounds.

    The network gives each number's mean and scale, the scale by softplus, at first about `FIRST_SCALE` (both as
    Andrychowicz et al. 2021, arXiv:2006.05990, section 3.2, found best). Densities are those of the number scaled to
    [-1, 1], with tanh's correction (Haarnoja et al. 2018, arXiv:1801.01290, appendix C), so that they do not depend on
    the game's units; uniform play has an entropy of log 2 a number, the highest there is.

    The log-probability is that of the action as it was rounded to float32 and played, in play and in learning alike;
    at a bound it counts as `EDGE` off it. The entropy is exact but for quadrature (Gauss-Hermite, 32 nodes). Greedy
    play takes the squashed mean.
    """

    FIRST_SCALE, LEAST_SCALE, EDGE, NODES = 0.5, 1e-3, 2.0**-20, 32

    def __init__(self, bounds: tuple[tuple[float, float], ...]) -> None:
        self._bounds = bounds
        self._offset = math.log(math.expm1(self.FIRST_SCALE))
        self._there: dict[torch.device, _Figures] = {}

    def sample(
        self, logits: Tensor, mask: Tensor | None, *, generator: torch.Generator | None, greedy: bool
    ) -> tuple[Tensor, Tensor]:
        """See `ActionHead.sample`."""
        mean, scale = self._normal(logits)
        drawn = mean
        if not greedy:
            drawn = mean + scale * draw_normal(mean.shape, generator, mean.device)
        low, high, *_ = self._figures(logits.device)
        action = low + (drawn.float().tanh() + 1) * ((high - low) / 2)
        action = torch.maximum(torch.minimum(action, high), low)
        return action, self._log_prob(mean, scale, action)

    def evaluate(self, logits: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """See `ActionHead.evaluate`."""
        mean, scale = self._normal(logits)
        *_, nodes, weights = self._figures(logits.device)
        gaussian = 0.5 * math.log(2 * math.pi * math.e) + scale.log()
        slopes = _log_slope(mean[..., None] + scale[..., None] * nodes)
        return self._log_prob(mean, scale, action), (gaussian + (slopes * weights).sum(-1)).sum(-1)

    def _normal(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and scale before tanh."""
        mean, raw = _precise(logits).chunk(2, -1)
        return mean, F.softplus(raw + self._offset) + self.LEAST_SCALE

    def _log_prob(self, mean: Tensor, scale: Tensor, action: Tensor) -> Tensor:
        low, high, *_ = self._figures(mean.device)
        unit = ((action - low).to(mean.dtype) / (high - low).to(mean.dtype)) * 2 - 1
        drawn = torch.atanh(unit.clamp(self.EDGE - 1, 1 - self.EDGE))
        gaussian = -0.5 * ((drawn - mean) / scale).square() - scale.log() - 0.5 * math.log(2 * math.pi)
        return (gaussian - _log_slope(drawn)).sum(-1)

    def _figures(self, device: torch.device) -> _Figures:
        """Made once for each device, in the first call there, so that later ones can be captured."""
        if device not in self._there:
            nodes, weights = np.polynomial.hermite_e.hermegauss(self.NODES)
            low, high = np.array(self._bounds, np.float32).T
            given = (torch.tensor(x, dtype=torch.float32) for x in (low, high, nodes, weights / weights.sum()))
            self._there[device] = _Figures(*(x.to(device) for x in given))
        return self._there[device]


def _log_slope(x: Tensor) -> Tensor:
    """log(1 - tanh(x)^2), the logarithm of tanh's slope."""
    return 2 * (math.log(2) - x - F.softplus(-2 * x))


class MixtureHead:
    """Parts of several kinds (`mixture`), each by the head of its kind, independent of each other."""

    def __init__(self, spec: ActionSpec) -> None:
        leaves = spec.leaves
        self._heads = [make_head(leaf, 0) for leaf in leaves]
        self._num_logits = [leaf.num_logits for leaf in leaves]
        self._mask_sizes = [leaf.mask_size for leaf in leaves]
        self._num_parts = [leaf.num_parts for leaf in leaves]
        self._is_real = [leaf.kind == "box" for leaf in leaves]

    def sample(
        self, logits: Tensor, mask: Tensor | None, *, generator: torch.Generator | None, greedy: bool
    ) -> tuple[Tensor, Tensor]:
        """See `ActionHead.sample`."""
        each = zip(self._heads, torch.split(logits, self._num_logits, -1), self._masks(mask), strict=True)
        drawn = [head.sample(x, seen, generator=generator, greedy=greedy) for head, x, seen in each]
        actions = [action.float() if any(self._is_real) else action for action, _ in drawn]
        return torch.cat(actions, -1), torch.stack([log_prob for _, log_prob in drawn], -1).sum(-1)

    def evaluate(self, logits: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """See `ActionHead.evaluate`."""
        log_probs, entropies = [], []
        actions = torch.split(action, self._num_parts, -1)
        parts = zip(torch.split(logits, self._num_logits, -1), actions, self._masks(mask), strict=True)
        for head, is_real, (x, taken, seen) in zip(self._heads, self._is_real, parts, strict=True):
            log_prob, entropy = head.evaluate(x, taken if is_real else taken.long(), seen)
            log_probs.append(log_prob)
            entropies.append(entropy)
        return torch.stack(log_probs, -1).sum(-1), torch.stack(entropies, -1).sum(-1)

    def _masks(self, mask: Tensor | None) -> list[Tensor | None]:
        """Of each part; None where everything of it is legal."""
        if mask is None:
            return [None] * len(self._heads)
        return [part if part.shape[-1] else None for part in torch.split(mask, self._mask_sizes, -1)]


def make_head(spec: ActionSpec, width: int) -> ActionHead:
    """The head of an action spec; width: of the features that `legal_tuples` are chosen from."""
    if spec.kind == "multi_binary":
        return KeysHead()
    if spec.kind == "box":
        return BoxHead(spec.bounds)
    if spec.kind == "mixture":
        return MixtureHead(spec)
    return TuplesHead(spec, width) if spec.kind == "legal_tuples" else ChoicesHead(spec.choices)
