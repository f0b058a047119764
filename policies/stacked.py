"""Several frozen nets of one architecture, played in one call: their weights lie stacked, one net a slot.

The network's own code plays them. Its inputs have the same number of rows R for each slot, in the slots' order:
(slots * R, ...). Only what carries weights has to know of the slots: `linear` multiplies slot by slot in one batched
product where a weight has three axes, `_StackedNorm` scales and shifts slot by slot, and the encoder's learned queries
are repeated for the rows of each. Attention and the LSTM's gates carry no weights; they see rows.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from league.policies.actor_critic import ActorCritic
from league.policies.linear import USES_ONEDNN
from league.types import Policy


def is_faster(device: torch.device, precision: str) -> bool:
    """Whether stacked nets play faster than one after the other (docs/performance.md): not in float32 through oneDNN,
    which has no batched product."""
    return device.type != "cpu" or precision == "bf16" or not USES_ONEDNN


class _StackedNorm(nn.Module):
    """LayerNorm with the weights (slots, width) of stacked nets."""

    def __init__(self, norm: nn.LayerNorm) -> None:
        super().__init__()
        self.shape, self.eps = norm.normalized_shape, norm.eps
        self.weight, self.bias = norm.weight, norm.bias

    def forward(self, x: Tensor) -> Tensor:
        """x (slots * R, width), R rows a slot."""
        rows = F.layer_norm(x, self.shape, eps=self.eps).view(len(self.weight), -1, x.shape[-1])
        return torch.addcmul(self.bias[:, None], rows, self.weight[:, None]).view(x.shape)


class StackedPolicy:
    """Frozen nets in slots (see `league.types.PolicyStack`).

    Args:
        like: a net of the architecture; its device is the stack's.
        num_slots: that there are to begin with.
        dtype: of the layers' weights, if not that of the net. Under bf16's autocast, bf16 gives the same numbers, since
            the weights would be rounded at each step, and takes half the memory.
    """

    def __init__(self, like: ActorCritic, num_slots: int, dtype: torch.dtype | None = None) -> None:
        self._like = copy.deepcopy(like).requires_grad_(False)
        self._dtypes = {
            f"{path}.{name}" if path else name: dtype if isinstance(module, nn.Linear | nn.LSTM) else None
            for path, module in like.named_modules()
            for name, _ in module.named_parameters(recurse=False)
        }
        self.num_slots = 0
        self._weights: dict[str, Tensor] = {}
        self._nets: dict[int, ActorCritic] = {}
        self.reserve(num_slots)

    def reserve(self, num_slots: int) -> None:
        """See `PolicyStack.reserve`."""
        if num_slots <= self.num_slots:
            return
        for name, weight in self._like.state_dict().items():
            old = self._weights.get(name)
            self._weights[name] = _zeros(num_slots, weight, self._dtypes[name])
            if old is not None:
                self._weights[name][: self.num_slots] = old
        self.num_slots = num_slots
        self._nets.clear()

    def put(self, slot: int, policy: Policy) -> None:
        """See `PolicyStack.put`."""
        for name, weight in policy.state_dict().items():
            self._weights[name][slot].copy_(weight)

    @torch.no_grad()
    def step(
        self,
        obs: Tensor,
        state: Any,
        *,
        num_slots: int,
        mask: Tensor | None = None,
        rows: Tensor | None = None,
        generator: torch.Generator | None = None,
        greedy: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `PolicyStack.step`."""
        net = self._nets.get(num_slots)
        if net is None:
            net = self._nets[num_slots] = self._first(num_slots)
        return net.step(obs, state, mask=mask, rows=rows, generator=generator, greedy=greedy)

    def _first(self, num_slots: int) -> ActorCritic:
        """The network whose weights are those of the first slots: views, so that `put` changes them too."""
        net = copy.deepcopy(self._like)
        for path, module in list(net.named_modules()):
            for name, _ in list(module.named_parameters(recurse=False)):
                weight = self._weights[f"{path}.{name}" if path else name][:num_slots]
                setattr(module, name, nn.Parameter(weight, requires_grad=False))
        for module in list(net.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.LayerNorm):
                    module.register_module(name, _StackedNorm(child))
        return net


def _zeros(num_slots: int, like: Tensor, dtype: torch.dtype | None) -> Tensor:
    """(num_slots, *like.shape); matrices lie by columns on a CPU, where products of few rows read them faster so."""
    if like.dim() != 2 or like.device.type != "cpu":
        return like.new_zeros((num_slots, *like.shape), dtype=dtype)
    return like.new_zeros((num_slots, like.shape[1], like.shape[0]), dtype=dtype).transpose(1, 2)
