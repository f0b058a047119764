"""The head of `legal_tuples`: an action chosen part by part, each among what the legal tuples leave open.

Every part sees the choices before it: an embedding of each is added to the features that the next part's logits are
made from, as in the action heads of AlphaStar (Vinyals et al. 2019, Nature 575:350, supplementary data,
"autoregressive embedding"). Here the sum passes through tanh before it becomes logits, so that what a choice means for
the next one may depend on the state.

All shapes are fixed and nothing waits for the device: CUDA graphs can capture it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from league.policies.kernels.linear import Linear
from league.policies.parts import Embedding
from league.runtime.rows import draw_uniform
from league.types import ActionSpec


class _Part(NamedTuple):
    """What is known of a part once those before it are chosen."""

    log_p: Tensor  # (..., C), -inf where a choice is not legal
    legal: Tensor  # (..., C)


class TuplesHead(nn.Module):
    """An `ActionHead` over features (..., width) instead of logits.

    Its log-probability is the sum of the parts', each given those before it: over all legal tuples the probabilities
    sum to 1. Its entropy is the sum of the parts' entropies along the action at hand: of two actions that share their
    first choices the later parts' differ. Its mean over actions drawn from the distribution is the entropy of the whole
    (chain rule); for one part it is exact. Greedy play takes the likeliest choice part by part.

    A mask without any tuple, as of a seat that is not to act, leaves every choice open.
    """

    def __init__(self, spec: ActionSpec, width: int) -> None:
        super().__init__()
        self.choices, self._shape = spec.choices, (spec.max_tuples, len(spec.choices))
        self.logits = nn.ModuleList(Linear(width, count) for count in spec.choices)
        self.seen = nn.ModuleList(Embedding(count, width) for count in spec.choices[:-1])
        for layer in self.logits:
            assert isinstance(layer, Linear)
            nn.init.orthogonal_(layer.weight, 0.01)
            nn.init.zeros_(layer.bias)

    def sample(
        self, features: Tensor, mask: Tensor | None, *, generator: torch.Generator | None, greedy: bool
    ) -> tuple[Tensor, Tensor]:
        """See `ActionHead.sample`."""
        action, log_prob, _ = self._chain(features, mask, None, generator, greedy)
        return action, log_prob

    def evaluate(self, features: Tensor, action: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """See `ActionHead.evaluate`; the entropy is that along `action`."""
        _, log_prob, entropy = self._chain(features, mask, action, None, False)
        return log_prob, entropy

    def _chain(
        self,
        features: Tensor,
        mask: Tensor | None,
        action: Tensor | None,
        generator: torch.Generator | None,
        greedy: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The action, its log-probability and the entropies along it; drawn or likeliest where none is given."""
        assert mask is not None, "legal_tuples have a mask"
        tuples = mask.view(*mask.shape[:-1], *self._shape).long()
        agrees = tuples[..., 0] >= 0  # (..., N), with all that is chosen so far
        choices, log_probs, entropies = [], [], []
        for i, layer in enumerate(self.logits):
            part = self._part(layer(torch.tanh(features)), tuples[..., i], agrees)
            choice = self._choose(part, generator, greedy) if action is None else action[..., i : i + 1]
            choices.append(choice)
            log_probs.append(part.log_p.gather(-1, choice)[..., 0])
            entropies.append(-(part.log_p.exp() * part.log_p.masked_fill(~part.legal, 0)).sum(-1))
            if i < len(self.seen):
                agrees = agrees & (tuples[..., i] == choice)
                features = features + self.seen[i](choice[..., 0])
        return torch.cat(choices, -1), torch.stack(log_probs, -1).sum(-1), torch.stack(entropies, -1).sum(-1)

    def _part(self, logits: Tensor, values: Tensor, agrees: Tensor) -> _Part:
        """values (..., N): what each tuple has in this part."""
        count = logits.shape[-1]
        # Tuples that are out are written into one more column than there are choices.
        index = torch.where(agrees & (values >= 0), values, count).clamp(max=count)
        legal = torch.zeros(*logits.shape[:-1], count + 1, dtype=torch.bool, device=logits.device)
        legal = legal.scatter(-1, index, True)[..., :count]
        legal = legal | ~legal.any(-1, keepdim=True)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        return _Part(logits.masked_fill(~legal, -torch.inf).log_softmax(-1), legal)

    def _choose(self, part: _Part, generator: torch.Generator | None, greedy: bool) -> Tensor:
        """(..., 1), by the Gumbel-max trick. Legal whatever the logits are, be they no numbers."""
        scores = part.log_p
        if not greedy:
            uniform = draw_uniform(scores.shape, generator, scores.device)
            scores = scores - torch.log(-torch.log(uniform.clamp(1e-20, 1 - 1e-7)))
        return scores.nan_to_num().masked_fill(~part.legal, -torch.inf).argmax(-1, keepdim=True)
