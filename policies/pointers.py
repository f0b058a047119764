"""Logits of actions that point at cells of a board or at entities, from what the network makes of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from league.policies.kernels.linear import Linear
from league.policies.torso import Pointed
from league.types import ObservationPart


class _Pointer(nn.Module):
    """A layer over each element and the features of the whole, and a logit for each kind of action there."""

    def __init__(self, channels: int, kinds: int, mlp: Callable[[int, float], nn.Module]) -> None:
        super().__init__()
        self.whole = mlp(channels, 1.0)
        self.here = Linear(channels, channels)
        self.out = Linear(channels, kinds)
        nn.init.orthogonal_(self.here.weight)
        nn.init.orthogonal_(self.out.weight, 0.01)
        nn.init.zeros_(self.out.bias)

    def forward(self, features: Tensor, elements: Tensor) -> Tensor:
        """features (..., F), elements (..., E, channels) -> (..., E * kinds)."""
        seen = self.here(elements) + self.whole(features)[..., None, :]
        result: Tensor = self.out(F.relu(seen)).flatten(-2)
        return result


class PointerActor(nn.Module):
    """The actor of a game whose actions act on elements of its observation (`ActionSpec.pointers`).

    The n-th action that points at an element is of the n-th kind. Actions that point at none have logits of the
    features alone. For entities it is a pointer network's (Vinyals et al. 2015, arXiv:1506.03134).

    Args:
        pointed: the parts pointed at, one or more.
        parts: all parts of the observation.
        channels: numbers for each element.
        mlp: (features, gain of the last layer): the agent's layers of `head_sizes` over the features of the whole.
    """

    def __init__(
        self,
        pointed: Sequence[Pointed],
        parts: Sequence[ObservationPart],
        channels: int,
        mlp: Callable[[int, float], nn.Module],
    ) -> None:
        super().__init__()
        self.parts = [each.part for each in pointed]
        """The indices of the parts whose elements it takes."""
        self.pointers = nn.ModuleList()
        self._index = [-1] * len(pointed[0].pointers)
        """Where each logit lies among those of all elements, part by part, and then those of none."""
        start = 0
        for each in pointed:
            kinds = max(Counter(element for element in each.pointers if element >= 0).values())
            self.pointers.append(_Pointer(channels, kinds, mlp))
            met = Counter[int]()
            for logit, element in enumerate(each.pointers):
                if element >= 0:
                    self._index[logit] = start + element * kinds + met[element]
                    met[element] += 1
            start += parts[each.part].num_elements * kinds
        rest = [logit for logit, place in enumerate(self._index) if place < 0]
        for number, logit in enumerate(rest):
            self._index[logit] = start + number
        self.rest = mlp(len(rest), 0.01) if rest else None
        self._on: dict[torch.device, Tensor] = {}

    def forward(self, features: Tensor, elements: Sequence[Tensor]) -> Tensor:
        """features (..., F), elements (..., E, channels) of each part in `parts` -> (..., num_logits)."""
        logits = [pointer(features, each) for pointer, each in zip(self.pointers, elements, strict=True)]
        if self.rest is not None:
            logits.append(self.rest(features))
        return torch.cat(logits, -1).index_select(-1, self._index_on(features.device))

    def _index_on(self, device: torch.device) -> Tensor:
        """Made once for each device, in the first call there, so that later ones can be captured."""
        if device not in self._on:
            self._on[device] = torch.tensor(self._index, device=device)
        return self._on[device]
