"""Several frozen nets of one architecture, played in one call: their weights lie stacked, one net a slot.

The network's own code plays them. Its inputs have the same number of rows R for each slot, in the slots' order:
(slots * R, ...). Only what carries weights has to know of the slots: `linear` multiplies slot by slot in one batched
product where a weight has three axes or is packed, `_StackedNorm` scales and shifts slot by slot, a convolution runs
slot by slot, statistics of observations have an axis of slots, and the encoder's learned queries are repeated for the
rows of each. Attention and the LSTM's gates carry no weights; they see rows.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from league.policies.kernels import switch
from league.policies.kernels.linear import Linear, PackedMatrix, can_pack, pack, packed_room
from league.types import Policy


def _is_rounded(module: nn.Module, weight: Tensor) -> bool:
    """Whether bf16's autocast rounds a layer's weights: an LSTM's where it is compiled (`kernels/lstm.py`) alone."""
    return isinstance(module, Linear) or (weight.device.type == "cpu" and switch.IS_ON)


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
        like: a net of the architecture, made of the layers of this package alone; its device is the stack's.
        num_slots: that there are to begin with.
        precision: `learner.precision` of the steps to come, for which the layers' weights are kept. `bf16`: in bf16
            what its autocast would round at each step, which gives the same numbers and takes half the memory.
            `float32`, `highest`: on a CPU with compiled products of that precision, laid out for those.
    """

    def __init__(self, like: nn.Module, num_slots: int, precision: str = "highest") -> None:
        self._like = copy.deepcopy(like).requires_grad_(False)
        packs = can_pack(next(like.parameters()), precision)
        self._low, self._packed = set[str](), set[str]()
        for path, module in like.named_modules():
            for name, weight in module.named_parameters(path, recurse=False):
                if not isinstance(module, Linear | nn.LSTM):
                    continue
                if precision == "bf16" and _is_rounded(module, weight):
                    self._low.add(name)
                elif packs and weight.dim() == 2:
                    self._packed.add(name)
        self.num_slots = 0
        self._weights: dict[str, Tensor] = {}
        self._nets: dict[int, Any] = {}
        self.reserve(num_slots)

    def reserve(self, num_slots: int) -> None:
        """See `PolicyStack.reserve`."""
        if num_slots <= self.num_slots:
            return
        for name, weight in self._like.state_dict().items():
            old = self._weights.get(name)
            self._weights[name] = self._room(num_slots, name, weight)
            if old is not None:
                self._weights[name][: self.num_slots] = old
        self.num_slots = num_slots
        self._nets.clear()

    def tensors(self) -> Sequence[Tensor]:
        """See `PolicyStack.tensors`."""
        return list(self._weights.values())

    def put(self, slot: int, policy: Policy) -> None:
        """See `PolicyStack.put`."""
        given = policy.state_dict()
        for name in self._packed:
            pack(given[name].t(), self._weights[name][slot])
        plain = [name for name in given if name not in self._packed]
        torch._foreach_copy_([self._weights[name][slot] for name in plain], [given[name] for name in plain])

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
        net: Policy = self._net(num_slots)
        return net.step(obs, state, mask=mask, rows=rows, generator=generator, greedy=greedy)

    @torch.no_grad()
    def watch(self, obs: Tensor, state: Any, *, num_slots: int, rows: Tensor | None = None) -> None:
        """See `PolicyStack.watch`."""
        self._net(num_slots).watch(obs, state, rows=rows)

    def _net(self, num_slots: int) -> Any:
        if num_slots not in self._nets:
            self._nets[num_slots] = self._first(num_slots)
        return self._nets[num_slots]

    def _first(self, num_slots: int) -> Any:
        """The network whose weights are those of the first slots: views, so that `put` changes them too."""
        net = copy.deepcopy(self._like)
        for path, module in list(net.named_modules()):
            for name, weight in list(module.named_parameters(recurse=False)):
                full_name = f"{path}.{name}" if path else name
                weights = self._weights[full_name][:num_slots]
                if full_name in self._packed:
                    delattr(module, name)
                    setattr(module, name, PackedMatrix(weights, len(weight)))
                else:
                    setattr(module, name, nn.Parameter(weights, requires_grad=False))
            for name, _ in list(module.named_buffers(recurse=False)):
                full_name = f"{path}.{name}" if path else name
                if full_name in self._weights:
                    setattr(module, name, self._weights[full_name][:num_slots])
        for module in list(net.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.LayerNorm):
                    module.register_module(name, _StackedNorm(child))
        return net

    def _room(self, num_slots: int, name: str, like: Tensor) -> Tensor:
        """Zeros (num_slots, ...) for a parameter of each net.

        Matrices lie by columns on a CPU, where products of few rows read them faster so.
        """
        if name in self._packed:
            return packed_room(num_slots, like.t()).zero_()
        dtype = torch.bfloat16 if name in self._low else None
        if like.dim() != 2 or like.device.type != "cpu":
            return like.new_zeros((num_slots, *like.shape), dtype=dtype)
        return like.new_zeros((num_slots, like.shape[1], like.shape[0]), dtype=dtype).transpose(1, 2)
