"""Multi-head attention with rotary positions (arXiv:2104.09864), cut so that keys and values can come from a memory."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from league.policies.linear import Linear

ROTARY_BASE = 1000.0
"""Longest rotary wavelength is about 2 pi times this many tokens."""


def rotation_at(positions: Tensor, head_width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin (..., 1, head_width / 2) of the rotary angles at `positions` (...)."""
    half = head_width // 2
    frequency = ROTARY_BASE ** (-torch.arange(half, device=positions.device, dtype=dtype) / half)
    angle = (positions.to(dtype)[..., None] * frequency)[..., None, :]
    return angle.cos(), angle.sin()


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates the pairs of x (..., heads, head_width)."""
    cos, sin = rotation
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Attention(nn.Module):
    """Multi-head attention cut in two, so that keys and values can come from a memory.

    No key bias: softmax cannot see one shared by all keys, so it would never get a gradient.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.head_width = width // heads
        self.out = Linear(width, width)

    def split(self, x: Tensor) -> Tensor:
        """(..., width) -> (..., heads, head_width)."""
        return x.view(*x.shape[:-1], self.heads, self.head_width)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """query (n, Q, heads, d), key and value (n, J, heads, d), mask (n, Q, J) True where seen -> (n, Q, width)."""
        result: Tensor = self.out(self.look(query, key, value, mask))
        return result

    def look(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """As `forward`, before the output's layer."""
        attended = F.scaled_dot_product_attention(
            query.transpose(1, 2),
            key.transpose(1, 2),
            value.transpose(1, 2),
            attn_mask=None if mask is None else mask[:, None],
        )
        return attended.transpose(1, 2).flatten(-2)
