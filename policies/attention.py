"""Multi-head attention with rotary positions (arXiv:2104.09864), cut so that keys and values can come from a memory."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import league.policies.latent_attention as latent_attention
from league.policies.linear import Linear, by_head, is_plain

ROTARY_BASE = 1000.0
"""Longest rotary wavelength is about 2 pi times this many tokens."""


def rotation_at(positions: Tensor, head_width: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin (..., 1, head_width / 2) of the rotary angles at `positions` (...), in float32 for smaller types."""
    dtype = torch.promote_types(dtype, torch.float32)  # bf16 cannot tell the later positions apart
    half = head_width // 2
    frequency = ROTARY_BASE ** (-torch.arange(half, device=positions.device, dtype=dtype) / half)
    angle = (positions.to(dtype)[..., None] * frequency)[..., None, :]
    return angle.cos(), angle.sin()


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotates the pairs of x (..., heads, head_width)."""
    cos, sin = rotation
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def split(x: Tensor, heads: int) -> Tensor:
    """(..., width) -> (..., heads, head_width)."""
    return x.view(*x.shape[:-1], heads, -1)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """query (n, Q, heads, d), key and value (n, J, heads, d), mask (n, Q, J) True where seen -> (n, Q, width)."""
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None]).transpose(1, 2).flatten(-2)


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
        query = self.query(x).view(len(key), -1, *heads)  # (nets, rows, heads, d)
        latents = latents.view(len(key), -1, num_latents, width)
        found = attend_latents(by_head(query, key), latents, math.sqrt(self.heads / width))
        result: Tensor = self.out(by_head(found, value.mT).reshape(*x.shape[:-1], width))
        return result


def attend_latents(sought: Tensor, latents: Tensor, scale: float) -> Tensor:
    """sought (nets, R, heads, width), latents (nets, R, L, width), keys and values at once -> as sought."""
    if not is_plain(latents):
        return (sought @ latents.mT * scale).softmax(-1).to(latents.dtype) @ latents
    flat = [x.float().flatten(0, 1).contiguous() for x in (sought, latents)]
    found: Tensor = _AttendLatents.apply(*flat, scale)  # type: ignore[no-untyped-call]
    return found.view(sought.shape)


class _AttendLatents(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sought: Tensor, latents: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(sought, latents)
        ctx.scale = scale
        found, ctx.share = latent_attention.forward(sought, latents, scale, torch.get_num_threads())
        result: Tensor = found
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        d_found, threads = gradients[0].contiguous(), torch.get_num_threads()
        return *latent_attention.backward(d_found, ctx.share, *ctx.saved_tensors, ctx.scale, threads), None
