"""Cross-attention of what is observed to what the opponent's encoder found."""

from __future__ import annotations

import math

from torch import Tensor, nn
from torch.nn import functional as F

from league.policies.kernels import gathered
from league.policies.kernels.linear import Linear, by_head

LONGEST_AXIS = 65_535
"""Blocks along an axis of CUDA's grids: torch's attention has one a row, and may refuse more."""


class CrossAttention(nn.Module):
    """Multi-head attention of one query over a few latents, whose keys and values are never formed.

    score = q . (K z) = (K' q) . z, so each head's query is carried to the latents, and what it finds among them is
    carried back by V: a product for each query, not for each latent. No key bias: softmax cannot see one shared by
    all keys, so it would never get a gradient.
    """

    def __init__(self, query_width: int, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = Linear(query_width, width)
        self.kv = nn.Linear(width, 2 * width, bias=False)  # only its weights are used
        self.out = Linear(width, width)

    def forward(self, x: Tensor, latents: Tensor) -> Tensor:
        """x (..., query_width), latents (..., L, width) -> (..., width)."""
        num_latents, width = latents.shape[-2:]
        heads = (self.heads, width // self.heads)
        key, value = self.kv.weight.view(-1, 2, *heads, width).unbind(1)  # (nets, heads, d, width)
        query = self.query(x).view(len(key), -1, *heads)  # (nets, R, heads, d)
        latents = latents.view(len(key), -1, num_latents, width)
        found = attend_latents(by_head(query, key), latents, math.sqrt(self.heads / width))
        result: Tensor = self.out(by_head(found, value.mT).reshape(*x.shape[:-1], width))
        return result


def attend_latents(sought: Tensor, latents: Tensor, scale: float) -> Tensor:
    """sought (nets, R, heads, width), latents (nets, R, L, width), keys and values at once -> as sought."""
    if not gathered.gathers(sought.device) or sought.shape[1] > LONGEST_AXIS:
        return (sought @ latents.mT * scale).softmax(-1).to(latents.dtype) @ latents
    sought, latents = sought.transpose(0, 1), latents.transpose(0, 1)
    return F.scaled_dot_product_attention(sought, latents, latents, scale=scale).transpose(0, 1)
